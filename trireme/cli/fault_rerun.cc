// What the command does when a GPU has faulted; see command.h. A process whose device has faulted gets
// nothing but that fault from any call, so that the search for the op needs a new one.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#include "trireme/base/output.h"
#include "trireme/cli/command.h"

namespace trireme::cli {
namespace {

constexpr std::string_view kDevice = "--train.device", kDebug = "--train.device=cuda_debug";
constexpr auto kCommands = std::to_array<std::string_view>({"train", "verify"});

}  // namespace

std::vector<std::string> debug_arguments(std::span<const std::string> arguments) {
  if (arguments.empty() || std::ranges::find(kCommands, arguments.front()) == kCommands.end()) return {};
  std::vector<std::string> again;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == kDebug) return {};
    if (arguments[i] == kDevice) {
      ++i;  // and its value
      if (i < arguments.size() && arguments[i] == "cuda_debug") return {};
    } else if (!arguments[i].starts_with(fmt::format("{}=", kDevice))) {
      again.push_back(arguments[i]);
    }
  }
  again.emplace_back(kDebug);
  return again;
}

void run_again_in_debug_order(std::span<const std::string> arguments) {
  std::vector<std::string> again = debug_arguments(arguments);
  if (again.empty()) return;
  say(stderr, "trireme: the same again, from the last checkpoint if there is one, op by op: {}\n", kDebug);
  std::fflush(nullptr);
  std::vector<char*> list = {const_cast<char*>("trireme")};
  for (std::string& one : again) list.push_back(one.data());
  list.push_back(nullptr);
  execv("/proc/self/exe", list.data());
}

}  // namespace trireme::cli
