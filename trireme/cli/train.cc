// `trireme train [config.toml] [--section.key=value…] [-n RANKS] [--plan PLAN] [--cluster CLUSTER]
// [--trace FILE] [--print-config]`: reads the command line; run/job.h does the rest.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "trireme/base/text.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/launch_flags.h"
#include "trireme/cli/step_flags.h"
#include "trireme/cli/train_report.h"
#include "trireme/run/config.h"
#include "trireme/run/job.h"
#include "trireme/runtime/device.h"

namespace trireme::cli {

int train(std::span<const std::string> arguments) {
  const SplitArguments split = split_settings(arguments);
  CLI::App app(
      fmt::format("Trains a model; without a config, a small language model on the text of this repository.\n"
                  "Ctrl-C, SIGTERM or SIGHUP finishes the step, saves a checkpoint and exits with code {}.",
                  static_cast<int>(kInterrupted)),
      "trireme train");
  std::string path;
  JobOptions job{.plan = "data", .default_text = default_text()};
  bool print_config = false;
  app.add_option("config", path, "a TOML file");
  add_launch_flags(app, job.launch);
  add_restarts_flag(app, job.launch);
  app.add_option(
         "--plan", job.plan,
         fmt::format(
             "how training is spread over the ranks: a plan file, a plan in JSON, or one of {}; auto: the "
             "fastest plan on --cluster",
             join(preset_plans(), ", ")))
      ->capture_default_str();
  app.add_option(
         "--cluster", job.cluster,
         "a cluster file from `trireme profile`: --plan auto chooses for it, and the log shows predicted "
         "beside measured step times; default with --plan auto: local.toml")
      ->type_name("FILE");
  app.add_option(
         "--links", job.links,
         "choose the algorithms of collectives from measured links: a file from `trireme bench collectives "
         "--calibrate`, or probe to measure now; default: fixed rules")
      ->type_name("FILE");
  app.add_option(
         "--products", job.products.path,
         "algorithms for matrix products on a GPU: a file from `trireme bench train --tune`; default: "
         "cuBLASLt chooses")
      ->type_name("FILE");
  app.add_option("--trace", job.trace,
                 "write a timeline of all ranks (segments, waits, collectives, messages) for ui.perfetto.dev")
      ->type_name("FILE");
  app.add_option("--slow", job.slow, "slow one rank down, for experiments: rank=2,factor=3")
      ->type_name("WHO");
  app.add_option(
         "--replay", job.replay,
         "for plans with a server or ad_psgd: repeat the order of arrivals of an earlier run, from its "
         "metrics.jsonl")
      ->type_name("FILE");
  app.add_flag("--print-config", print_config, "show each setting and where it comes from, and stop");
  if (const auto code = parse_arguments(app, split, "\n" + config_help())) return *code;

  ConfigSources sources{.environment = process_environment(), .command_line = split.settings};
  if (!path.empty()) sources.file = read_config_file(path);
  const ResolvedConfig config = resolve_config(sources);
  if (print_config) {
    fmt::print("{}", config_table(config));
    return kOk;
  }
  take_device_links(job.launch, config.config.train.device == "cuda" && cuda_device_count() == 1);
  if (app.count("--plan") == 0) job.plan.clear();  // one rank alone has none
  TrainReport report;
  return run_training(config, report, job);
}

}  // namespace trireme::cli
