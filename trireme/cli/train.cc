// `trireme train [config.toml] [--section.key=value…] [--print-config]`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>

#include "trireme/base/thread_pool.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/ceilings.h"
#include "trireme/cli/command.h"
#include "trireme/train/config.h"
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

// The text that is learned when no data is named: the repository that this program was built from, or the
// folder it is run in when that is gone.
std::string default_text() {
  return std::filesystem::is_directory(TRIREME_SOURCE_DIR) ? TRIREME_SOURCE_DIR
                                                           : std::filesystem::current_path().string();
}

double peak_flops(const TrainOptions& train) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  ThreadPool pool(train.threads ? static_cast<int>(train.threads) : cores);
  return measure_flops_per_second(pool);
}

}  // namespace

int train(std::span<const std::string> arguments) {
  const SplitArguments split = split_settings(arguments);
  CLI::App app(
      fmt::format("Trains a model; without a config, a small language model on the text of this repository.\n"
                  "Ctrl-C or SIGTERM finishes the step, saves a checkpoint and exits with code {}.",
                  static_cast<int>(kInterrupted)),
      "trireme train");
  std::string path;
  bool print_config = false;
  app.add_option("config", path, "a TOML file");
  app.add_flag("--print-config", print_config, "show each setting and where it comes from, and stop");
  const std::string settings_help =
      "Settings (command line over environment, TRIREME_SECTION__KEY, over file over default):\n" +
      config_help();
  if (const auto code = parse_arguments(app, split.own, settings_help)) return *code;

  ConfigSources sources{.environment = process_environment(), .command_line = split.settings};
  if (!path.empty()) sources.file = read_config_file(path);
  const ResolvedConfig config = resolve_config(sources);
  if (print_config) {
    fmt::print("{}", config_table(config));
    return kOk;
  }
  std::signal(SIGINT, request_stop);
  std::signal(SIGTERM, request_stop);
  const RunResult result = run_training(config, {.default_text = default_text(),
                                                 .stop = &stop_requested,
                                                 .peak_flops = peak_flops(config.config.train)});
  return result.end == RunResult::End::kStopped ? kInterrupted : kOk;
}

}  // namespace trireme::cli
