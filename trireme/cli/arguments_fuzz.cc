// Command lines of any bytes, an argument up to each NUL: refused with a text, or read; settings and values
// go on to their own readers, which refuse them with an Error. The flags are those that most commands have.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/launch_flags.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  const std::vector<std::string> arguments = split({reinterpret_cast<const char*>(data), size}, '\0');
  const cli::SplitArguments split = cli::split_settings(arguments);
  CLI::App app("Fuzzed.", "trireme fuzz");
  comm::LaunchOptions launch;
  std::string config, sizes;
  std::vector<int> ranks;
  double jitter = 0;
  int64_t steps = 0;
  bool all = false;
  app.add_option("config", config);
  cli::add_launch_flags(app, launch);
  app.add_option("--sizes", sizes);
  app.add_option("--each", ranks)->delimiter(',');
  app.add_option("--jitter", jitter)->check(CLI::NonNegativeNumber);
  app.add_option("--steps", steps)->check(CLI::PositiveNumber);
  app.add_flag("--all", all);
  const std::optional<cli::ArgumentsEnd> end = cli::read_arguments(app, split.own, "more\n");
  if (end && (end->text.empty() || (end->code != kOk && end->code != kUsage))) std::abort();
  try {
    if (!sizes.empty() && cli::parse_sizes(sizes).empty()) std::abort();
    launch.validate();
  } catch (const Error&) {
  }
  if (split.own.size() + split.settings.size() != arguments.size()) std::abort();
  return 0;
}
