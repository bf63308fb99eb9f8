// `trireme train [config.toml] [--section.key=value…] [--print-config]`.
#include <fmt/format.h>

#include <atomic>
#include <csignal>

#include "trireme/base/error.h"
#include "trireme/cli/command.h"
#include "trireme/cli/settings.h"
#include "trireme/train/loop.h"

namespace trireme::cli {
namespace {

// Signals reach a process, not an object: this flag is the one piece of global state, and only train() reads
// it.
std::atomic<bool> stop_requested{false};

void request_stop(int signal) {
  stop_requested.store(true);
  std::signal(signal, SIG_DFL);  // a second one ends the process at once
}

void print_help() {
  fmt::print(
      "usage: trireme train [CONFIG.toml] [--section.key=value ...] [--print-config]\n\n"
      "Trains a model. Without a config: a small language model on the text of this repository.\n"
      "  --print-config   show each setting and where it comes from, and stop\n"
      "Ctrl-C or SIGTERM finishes the step, saves a checkpoint and exits with code {}.\n\n"
      "Settings, with their defaults:\n{}",
      static_cast<int>(kInterrupted), config_help());
}

}  // namespace

int train(std::span<const std::string> arguments) {
  const Settings settings = read_settings(arguments, {"--print-config", "--help", "-h"});
  if (settings.has("--help") || settings.has("-h")) {
    print_help();
    return kOk;
  }
  const ResolvedConfig config = resolve_config(settings.sources);
  if (settings.has("--print-config")) {
    fmt::print("{}", config_table(config));
    return kOk;
  }
  std::signal(SIGINT, request_stop);
  std::signal(SIGTERM, request_stop);
  const RunResult result = run_training(config, default_text(), stop_requested);
  return result.end == RunResult::End::kStopped ? kInterrupted : kOk;
}

}  // namespace trireme::cli
