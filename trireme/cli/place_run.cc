// See place_run.h. The launcher solves once; the ranks are told the placement by a file in its memory that
// has no name, so that nothing is left behind.
#include "trireme/cli/place_run.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/output.h"
#include "trireme/cli/command.h"
#include "trireme/cli/step_flags.h"
#include "trireme/cli/write_file.h"
#include "trireme/comm/context.h"
#include "trireme/comm/wire/socket.h"
#include "trireme/placed/feed.h"
#include "trireme/placed/model.h"
#include "trireme/placed/report.h"

namespace trireme::cli {
namespace {

// Of this process, for its children to open.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& text) : file_(memfd_create("trireme_placement", MFD_CLOEXEC)) {
    if (file_.get() < 0 || write(file_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      throw_error("no memory for the placement: {}", std::strerror(errno));
  }
  std::string path() const { return fmt::format("/proc/{}/fd/{}", getpid(), file_.get()); }

 private:
  comm::Descriptor file_;
};

int report_run(const placed::Job& job, const placed::RunReport& report, const PlaceRun& run) {
  const placed::Comparison simulated = placed::simulated(job), measured = placed::measured(job, report);
  say("{}", report.lost.empty() ? placed::to_text(job, simulated, measured, report)
                                : placed::to_text(measured, report));
  if (!run.json.empty()) write_json(run.json, placed::to_json(job, simulated, measured, report));
  if (!run.answers.empty()) write_file(run.answers, placed::answer_lines(job, report), "answers");
  if (report.lost.empty()) return kOk;
  throw_error("the run ended after {} of {} requests: lost {}", report.answered, report.requests,
              report.lost);
}

}  // namespace

bool is_placed_rank() {
  const comm::LaunchEnvironment environment = comm::detect(comm::process_variables(), {});
  return environment.launcher == comm::Launcher::local && !environment.starts_ranks;
}

int run_placed(const place::Workflow& workflow, const place::Placement& placement,
               const nlohmann::ordered_json& placement_json, const place::Requests& requests,
               const PlaceRun& run, std::span<const std::string> given) {
  const placed::Job job = placed::make_job(workflow, placement, requests);
  comm::LaunchOptions launch{.ranks = job.ranks(), .transport = "tcp"};
  launch.launcher = comm::Launcher::local;  // whatever else this process runs under
  launch.timeout_seconds = run.timeout;
  launch.needed_ranks = 1;  // the sources end the run when a worker is lost
  launch.links = placed::links_between(job);
  const MemoryFile file(placement_json.dump());
  if (comm::detect(comm::process_variables(), launch).starts_ranks) {
    placed::check_models(job, run.folder);
    launch.arguments = {"trireme", "place"};
    launch.arguments.insert(launch.arguments.end(), given.begin(), given.end());
    launch.arguments.push_back("--placement=" + file.path());
  }
  std::fflush(stdout);  // before the ranks write
  placed::Mail mail;    // outlives the transport
  return comm::run_launched(launch, [&](comm::Context& context) {
    if (context.rank() > 0) {
      placed::WorkerModels models(job, context.rank(), run.folder);
      context.world().barrier().wait();  // from here on the launcher knows that a worker may be lost
      placed::work(job, context.rank(), context.transport(), mail,
                   [&](int op, std::span<const placed::Bytes> inputs) { return models.make(op, inputs); });
      return static_cast<int>(kOk);
    }
    const placed::SourceImages images(job, run.folder, default_text());
    context.world().barrier().wait();
    const placed::RunReport report = placed::feed(
        job, context.transport(), mail,
        [&](int source, int64_t request) { return images.message(source, request); }, run.timeout);
    return report_run(job, report, run);
  });
}

}  // namespace trireme::cli
