// See hosts.h.
#include "trireme/chaos/hosts.h"

#include <unistd.h>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/chaos/job.h"

namespace trireme::chaos {
namespace {

constexpr double kToolSeconds = 30;

}  // namespace

void run_tool(const std::vector<std::string>& command) {
  Job tool(1);
  tool.start(command);
  if (const int code = tool.wait_for_end(kToolSeconds); code != 0)
    throw_error("`{}` failed with exit code {}: {}", join(command, " "), code, tool.last_lines(3));
}

TwoHosts::TwoHosts() {
  if (geteuid() != 0)
    throw_error(
        "--hosts 2 makes network namespaces, which only root may; run it as root, or leave --hosts out: partitions "
        "and slow links between ranks of one host need no rights");
  try {
    make();
  } catch (const Error& error) {
    remove();
    throw_error("--hosts 2: no network namespaces here (ip and tc are of the package iproute2): {}",
                error.what());
  }
}

TwoHosts::~TwoHosts() {
  remove();
}

std::string TwoHosts::space(int host) const {
  return fmt::format("trireme_{}_{}", getpid(), host);
}

std::vector<std::string> TwoHosts::prefix(int host) const {
  return {"ip", "netns", "exec", space(host)};
}

std::string TwoHosts::address(int host) {
  return fmt::format("10.231.79.{}", host + 1);
}

void TwoHosts::make() {
  for (const int host : {0, 1}) {
    run_tool({"ip", "netns", "add", space(host)});
    run_tool({"ip", "-n", space(host), "link", "set", "lo", "up"});
  }
  run_tool({"ip", "-n", space(0), "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns",
            space(1)});
  for (const int host : {0, 1}) {
    run_tool({"ip", "-n", space(host), "address", "add", address(host) + "/24", "dev", "cable"});
    run_tool({"ip", "-n", space(host), "link", "set", "cable", "up"});
  }
}

void TwoHosts::remove() noexcept {
  for (const int host : {0, 1}) {
    try {
      run_tool({"ip", "netns", "delete", space(host)});
    } catch (const std::exception&) {  // it may not have been made
    }
  }
}

void TwoHosts::cut_cable() {
  run_tool({"ip", "-n", space(0), "link", "set", "cable", "down"});
}

void TwoHosts::lose_all_from(int host) {
  run_tool({"ip", "-n", space(host), "neigh", "replace", address(1 - host), "lladdr", "02:00:00:00:00:01",
            "dev", "cable", "nud", "permanent"});
}

void TwoHosts::limit_rate(const std::string& rate) {
  // The burst is what passes at once after a pause; it is short, so that messages feel the rate.
  for (const int host : {0, 1})
    run_tool({"tc", "-n", space(host), "qdisc", "replace", "dev", "cable", "root", "tbf", "rate", rate,
              "burst", "8kb", "limit", "4mb"});
}

}  // namespace trireme::chaos
