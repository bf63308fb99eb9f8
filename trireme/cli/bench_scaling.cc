// `trireme bench scaling`: strong and weak scaling of a config's step over ranks of this machine, measured by
// `trireme bench train` in processes of its own, beside what the simulator says of a cluster file.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/machine.h"
#include "trireme/base/text.h"
#include "trireme/bench/scaling.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/write_file.h"
#include "trireme/mesh/cluster_file.h"
#include "trireme/plan/plan.h"

namespace trireme::cli {
namespace {

namespace fs = std::filesystem;

struct ScalingOptions {
  bench::StepSource source;
  std::vector<int> ranks = {1, 2};
  std::string plan = "data", cluster, json;
  int steps = 10, repeats = 3, threads = 1;
};

// Settings of a point, after those of the command line.
std::vector<std::string> settings_at(const ScalingOptions& options, const bench::ScalingPoint& point) {
  std::vector<std::string> settings = options.source.settings;
  settings.push_back(fmt::format("train.batch={}", point.batch));
  settings.push_back(fmt::format("train.threads={}", options.threads));
  return settings;
}

// This program once more, silent but for its errors. Throws Error when it fails.
void run_self(const std::vector<std::string>& arguments) {
  std::vector<std::string> words{"trireme"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) throw_error("a process to measure in can not be started: {}", std::strerror(errno));
  if (child == 0) {
    if (!std::freopen("/dev/null", "w", stdout)) _exit(127);
    execv("/proc/self/exe", argv.data());
    _exit(127);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw_error("trireme {} has failed; run by itself it says why", join(arguments, " "));
}

double measured_seconds(const ScalingOptions& options, const bench::ScalingPoint& point) {
  const fs::path file = fs::temp_directory_path() / fmt::format("trireme-scaling-{}.json", getpid());
  std::vector<std::string> arguments{"bench", "train"};
  if (!options.source.config_path.empty())
    arguments.push_back(options.source.config_path);
  else if (!options.source.preset.empty())
    arguments.push_back("--preset=" + options.source.preset);
  if (!options.source.image.empty()) arguments.push_back("--image=" + options.source.image);
  arguments.push_back(fmt::format("--steps={}", options.steps));
  arguments.push_back("--json=" + file.string());
  if (point.ranks > 1) {
    arguments.insert(arguments.end(), {"-n", std::to_string(point.ranks), "--plan=" + options.plan});
  }
  for (const std::string& setting : settings_at(options, point)) arguments.push_back(setting);
  run_self(arguments);
  std::ifstream in(file);
  const nlohmann::json report = nlohmann::json::parse(in, nullptr, false);
  fs::remove(file);
  if (!report.is_array() || report.empty())
    throw_error("trireme bench train has written no report to {}", file.string());
  return report[0].at("median_seconds").get<double>();
}

double simulated_seconds(const ScalingOptions& options, const bench::ScalingPoint& point,
                         const Cluster& cluster) {
  const Plan plan = read_plan(options.plan, point.ranks);
  bench::StepSource source = options.source;
  source.settings = settings_at(options, point);
  return bench::simulated_step_seconds(bench::set_up_step(source, plan), plan, cluster);
}

void print_table(const std::vector<bench::ScalingPoint>& points,
                 const std::vector<bench::Efficiency>& shares) {
  const auto optional = [](double value, const std::string& text) {
    return value > 0 ? text : std::string("-");
  };
  fmt::print("{:<8}{:>6}{:>8}{:>12}{:>12}{:>14}{:>14}\n", "scaling", "ranks", "batch", "step ms", "simulated",
             "efficiency", "simulated");
  for (size_t i = 0; i < points.size(); ++i) {
    const bench::ScalingPoint& p = points[i];
    fmt::print("{:<8}{:>6}{:>8}{:>12.2f}{:>12}{:>13.1f}%{:>14}\n", name(p.scaling), p.ranks, p.batch,
               p.measured_seconds * 1e3,
               optional(p.simulated_seconds, fmt::format("{:.2f}", p.simulated_seconds * 1e3)),
               100 * shares[i].measured,
               optional(shares[i].simulated, fmt::format("{:.1f}%", 100 * shares[i].simulated)));
  }
}

int run(const ScalingOptions& options) {
  const bench::StepSetup setup = bench::set_up_step(options.source);
  const std::vector<bench::ScalingPoint> wanted =
      bench::scaling_points(options.ranks, setup.config.train.batch);
  const Cluster cluster = options.cluster.empty() ? Cluster() : read_cluster(options.cluster);
  fmt::print("{}: {}, plan {}, {} thread{} a rank, least of {} medians of {} steps, {} ({} cores)\n",
             setup.name, setup.config.model.family, options.plan, options.threads,
             options.threads == 1 ? "" : "s", options.repeats, options.steps, cpu_model(), thread_count(0));
  std::fflush(stdout);
  bench::StepSeconds simulate;
  if (!options.cluster.empty())
    simulate = [&](const bench::ScalingPoint& point) { return simulated_seconds(options, point, cluster); };
  const std::vector<bench::ScalingPoint> points = bench::measure_scaling(
      wanted, options.repeats,
      [&](const bench::ScalingPoint& point) { return measured_seconds(options, point); }, simulate);
  const std::vector<bench::Efficiency> shares = bench::efficiencies(points);
  print_table(points, shares);
  if (options.json.empty()) return kOk;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (size_t i = 0; i < points.size(); ++i)
    list.push_back({{"benchmark", "scaling"},
                    {"config", setup.name},
                    {"scaling", name(points[i].scaling)},
                    {"plan", options.plan},
                    {"ranks", points[i].ranks},
                    {"batch", points[i].batch},
                    {"threads", options.threads},
                    {"median_seconds", points[i].measured_seconds},
                    {"predicted_seconds", points[i].simulated_seconds},
                    {"efficiency", shares[i].measured},
                    {"predicted_efficiency", shares[i].simulated}});
  write_json(options.json, list);
  return kOk;
}

}  // namespace

int bench_scaling(std::span<const std::string> arguments) {
  const SplitArguments split = split_settings(arguments);
  ScalingOptions options;
  options.source.settings = split.settings;
  options.source.preset = bench::usual_preset(split.settings);
  CLI::App app("Times training steps on random data over more and more ranks of this machine.",
               "trireme bench scaling");
  app.add_option("config", options.source.config_path, "a TOML file; without one, the preset");
  app.add_option("--preset", options.source.preset,
                 fmt::format("{}; default gpt, or the defaults of --model.family where that is given",
                             join(bench::preset_names(), ", ")));
  app.add_option("--image", options.source.image, "size of random images, like 3x32x32");
  app.add_option("--ranks", options.ranks, "numbers of ranks, e.g. 1,2,4")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--plan", options.plan, "how steps are spread over the ranks: a preset")
      ->capture_default_str();
  app.add_option("--threads", options.threads, "threads of each rank")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  app.add_option(
      "--cluster", options.cluster,
      "also simulate each step, with the cluster file that `trireme profile -n RANKS --threads THREADS` "
      "wrote on this machine");
  app.add_option("--steps", options.steps, "timed steps per measurement")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--repeats", options.repeats, "measurements of each point, interleaved; the shortest counts")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--json", options.json, "write the results to this file");
  if (const auto code = parse_arguments(app, split)) return *code;
  return run(options);
}

}  // namespace trireme::cli
