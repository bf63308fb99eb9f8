// See step_flags.h.
#include "trireme/cli/step_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/mesh/cluster_file.h"
#include "trireme/plan/plan.h"

namespace trireme::cli {

void add_step_flags(CLI::App& app, bench::StepSource& source) {
  app.add_option("config", source.config_path, "a TOML file; without one, the defaults of `trireme train`");
  app.add_option("--preset", source.preset, fmt::format("one of {}", join(bench::preset_names(), ", ")));
  app.add_option("--image", source.image, "size of images, like 3x32x32");
}

CLI::Option* add_plan_flag(CLI::App& app, std::string& plan) {
  return app.add_option("--plan", plan,
                        fmt::format("a plan in JSON, a file with one, or {}", join(preset_plans(), ", ")));
}

Cluster ClusterFlags::read() const {
  Cluster named = read_cluster(cluster);
  return hosts > 0 ? with_hosts(std::move(named), hosts) : named;
}

void add_cluster_flags(CLI::App& app, ClusterFlags& flags) {
  app.add_option(
         "--cluster", flags.cluster,
         fmt::format("a TOML file, as `trireme profile` writes it, or {}", join(shipped_clusters(), ", ")))
      ->required();
  app.add_option("--hosts", flags.hosts,
                 "use this many hosts of the cluster, which must have one class of hosts")
      ->check(CLI::Range(1, 1 << 20));
}

void add_checkpoint_flag(CLI::App& app, CheckpointChoice& choice) {
  app.add_option_function<std::string>(
         "--checkpoint",
         [&choice](const std::string& text) {
           try {
             choice = CheckpointChoice::parse(text);
           } catch (const Error& error) {
             throw CLI::ValidationError("--checkpoint", error.what());
           }
         },
         "the step of the checkpoint, or best: the one with the lowest held-out loss (run.keep_best); the "
         "newest, if not said")
      ->type_name("STEP|best");
}

void add_weights_flags(CLI::App& app, WeightsChoice& choice) {
  add_checkpoint_flag(app, choice.checkpoint);
  app.add_flag_callback(
      "--ema", [&choice] { choice.used = UsedWeights::kAverages; },
      "use the moving averages of the weights (train.ema)");
}

std::string default_text() {
  return default_text(TRIREME_SOURCE_DIR);
}

std::string default_text(const std::string& source) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(std::filesystem::path(source) / "trireme/trireme.h", ignored)
             ? source
             : "";
}

}  // namespace trireme::cli
