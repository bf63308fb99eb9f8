// `trireme plan --fit`: for each model and technique which classes of devices have the memory for it
// (planner/fit.h), and what runs out where one has not.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/bench/step_setup.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/mesh/cluster_file.h"
#include "trireme/planner/fit.h"
#include "trireme/run/plan_subject.h"

namespace trireme::cli {
namespace {

std::string cell(const planner::Need& need, const DeviceClass& device) {
  const double over = need.over_bytes(device);
  if (over <= 0)
    return fmt::format("fits, {:.1f}%",
                       100 * static_cast<double>(need.memory.peak_bytes) / device.memory_bytes);
  return fmt::format("{} over ({})", format_bytes(static_cast<size_t>(over)), need.largest_kind());
}

void print_fit(const bench::StepSource& source, const std::vector<DeviceClass>& devices, int count) {
  const bench::StepSetup setup = bench::set_up_step(source);
  const planner::Subject subject = plan_subject(setup.config, setup.shape.sample);
  fmt::print("{}: {}, batch {} of {}, {}, on {} device{}\n", setup.name, setup.config.model.family,
             setup.config.train.batch, to_string(setup.shape.sample), setup.config.train.precision, count,
             count == 1 ? "" : "s");
  fmt::print("  {:<44} {:>12}", "technique", "needs");
  for (const DeviceClass& device : devices)
    fmt::print("  {:<28}",
               fmt::format("{}, {}", device.name, format_bytes(static_cast<size_t>(device.memory_bytes))));
  fmt::print("\n");
  for (const planner::Need& need : planner::needs_of(subject, count)) {
    fmt::print("  {:<44} ", need.technique);
    if (!need.refused.empty()) {
      fmt::print("{:>12}  {}\n", "refused", need.refused);
      continue;
    }
    fmt::print("{:>12}", format_bytes(need.memory.peak_bytes));
    for (const DeviceClass& device : devices) fmt::print("  {:<28}", cell(need, device));
    fmt::print("\n");
  }
}

}  // namespace

bool asks_for_fit(std::span<const std::string> arguments) {
  return std::ranges::find(arguments, "--fit") != arguments.end();
}

int plan_fit(std::span<const std::string> arguments) {
  const SplitArguments split = split_settings(arguments);
  bench::StepSource source;
  source.settings = split.settings;
  std::vector<std::string> configs, clusters;
  int devices = 8;
  bool fit = true;
  CLI::App app("Shows which classes of devices have the memory for a training step, by technique.",
               "trireme plan --fit");
  app.add_flag("--fit", fit);
  app.add_option("configs", configs,
                 "TOML files, one model each; without one, the defaults of `trireme train`");
  app.add_option("--preset", source.preset, fmt::format("one of {}", join(bench::preset_names(), ", ")));
  app.add_option("--image", source.image, "size of images, like 3x32x32");
  app.add_option("--cluster", clusters,
                 fmt::format("compare the device classes of these clusters; default: {}",
                             join(shipped_clusters(), ", ")));
  app.add_option("-n,--devices", devices, "number of devices that a technique may use")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 12));
  if (const auto code = parse_arguments(app, split)) return *code;

  std::vector<DeviceClass> classes;
  for (const std::string& name : clusters.empty() ? shipped_clusters() : clusters) {
    for (const DeviceClass& device : read_cluster(name).devices) classes.push_back(device);
  }
  if (configs.empty()) configs.emplace_back();
  for (const std::string& config : configs) {
    source.config_path = config;
    print_fit(source, classes, devices);
  }
  return kOk;
}

}  // namespace trireme::cli
