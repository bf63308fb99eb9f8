// `trireme simulate`: a step of a config under a plan on a cluster, without data or weights (sim/simulate.h).
#include "trireme/sim/simulate.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/statistics.h"
#include "trireme/base/text.h"
#include "trireme/bench/sweep.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/prediction_report.h"
#include "trireme/cli/step_flags.h"
#include "trireme/cli/sweep_table.h"
#include "trireme/cli/write_file.h"
#include "trireme/runtime/slowed_communicator.h"
#include "trireme/sim/draw.h"
#include "trireme/sim/goodput.h"

namespace trireme::cli {
namespace {

struct SimulateFlags {
  bench::StepSource source;
  ClusterFlags cluster;
  std::string plan, json, trace, svg;
  int ranks = 0;
  bool steps = false, all_ranks = false, no_overlap = false;
  std::vector<std::string> slow;
  double jitter = 0;
  int draws = 32;
  std::string failures;
  std::vector<std::string> swept;
  std::string shown = "rate";
};

sim::Disturbance disturbance_of(const SimulateFlags& options, int ranks) {
  sim::Disturbance result{.jitter = options.jitter};
  for (const std::string& text : options.slow) {
    const SlowRank slow = parse_slow_rank(text, ranks);
    result.slow[slow.rank] = slow.factor;
  }
  return result;
}

void print_disturbed(const std::vector<double>& drawn) {
  if (drawn.size() < 2) return;
  double sum = 0;
  for (const double seconds : drawn) sum += seconds;
  fmt::print(
      "\n"
      "{} steps with jitter: {:.3f} s on average, {:.3f} the shortest, {:.3f} nine of ten, {:.3f} the "
      "longest\n",
      drawn.size(), sum / static_cast<double>(drawn.size()), drawn.front(), quantile_of(drawn, 0.9),
      drawn.back());
}

void print_goodput(const sim::Failures& failures, int devices) {
  const sim::Goodput goodput = sim::goodput_of(failures, devices);
  fmt::print(
      "\n"
      "failures: one in {:.1f} h among {} devices; with a checkpoint every {:.1f} min, {:.2f} % of the "
      "time lasts as work\n",
      goodput.mtbf_seconds / 3600, devices, goodput.interval_seconds / 60, 100 * goodput.share);
}

sim::SimOptions sim_options(const SimulateFlags& options, const Plan& plan) {
  return {
      .collectives = options.steps ? sim::CollectiveModel::kSteps : sim::CollectiveModel::kClosedForms,
      .ranks = options.all_ranks ? sim::SimOptions::Ranks::kAll : sim::SimOptions::Ranks::kRepresentatives,
      .overlap = options.no_overlap ? sim::Overlap::kNone : sim::Overlap::kAsPlanned,
      .events = options.trace.empty() && (options.svg.empty() || !options.swept.empty())
                    ? sim::Events::kNone
                    : sim::Events::kRecorded,
      .disturbance = disturbance_of(options, plan.mesh.ranks()),
      .draws = options.draws};
}

int run_one(const SimulateFlags& options, const Plan& plan, const Cluster& cluster) {
  std::optional<sim::Failures> failures;
  if (!options.failures.empty()) failures = sim::parse_failures(options.failures);
  const bench::StepSetup setup = bench::set_up_step(options.source, plan);
  const bench::Prediction prediction = bench::predict(setup, plan, cluster, sim_options(options, plan));
  print_prediction(prediction, setup, cluster.name, plan);
  print_disturbed(prediction.report.drawn_seconds);
  if (failures) print_goodput(*failures, plan.mesh.ranks());
  if (!options.json.empty())
    write_json(options.json,
               nlohmann::ordered_json::array({prediction_json(prediction, setup, cluster.name, plan)}));
  if (!options.trace.empty()) write_file(options.trace, sim::trace_of(prediction.report, plan.mesh), "trace");
  if (!options.svg.empty())
    write_file(options.svg,
               sim::draw_svg(prediction.report, plan.mesh,
                             fmt::format("{}, {} on {}", setup.name, to_string(plan.mesh), cluster.name)),
               "picture");
  return kOk;
}

int run_sweep(const SimulateFlags& options, const Plan& plan, const Cluster& cluster) {
  for (const auto& [flag, is_there] :
       {std::pair("--trace", !options.trace.empty()), std::pair("--failures", !options.failures.empty()),
        std::pair("--jitter", options.jitter > 0)}) {
    if (is_there)
      throw_error("{} is about one step, and --sweep makes several; simulate the one by itself", flag);
  }
  std::vector<bench::Swept> swept;
  for (const std::string& text : options.swept) swept.push_back(bench::parse_swept(text));
  SweepTable table(swept);
  const std::vector<bench::SweepPoint> points =
      bench::sweep({options.source, plan, cluster, sim_options(options, plan)}, swept,
                   [&](const bench::SweepPoint& point) { table.print(point); });
  if (!options.json.empty()) write_json(options.json, sweep_json(swept, points, cluster.name));
  if (!options.svg.empty()) {
    LineChart chart = bench::sweep_chart(swept, points, bench::sweep_figure(options.shown));
    chart.title = fmt::format("simulated steps on {}", cluster.name);
    chart.subtitle = join(options.swept, "  ");
    write_file(options.svg, chart.draw(), "picture");
  }
  const bool all_refused =
      std::ranges::none_of(points, [](const auto& point) { return point.prediction.has_value(); });
  if (all_refused) throw_error("--sweep: no point can be simulated; the reasons are in the table");
  return kOk;
}

int run(const SimulateFlags& options) {
  const Plan plan = read_plan(options.plan, options.ranks);
  const Cluster cluster = options.cluster.read();
  return options.swept.empty() ? run_one(options, plan, cluster) : run_sweep(options, plan, cluster);
}

}  // namespace

int simulate(std::span<const std::string> arguments) {
  const SplitArguments split = split_settings(arguments, "--sweep");
  SimulateFlags options;
  options.source.settings = split.settings;
  CLI::App app("Times a training step under a plan on a cluster that need not be here.", "trireme simulate");
  add_step_flags(app, options.source);
  add_plan_flag(app, options.plan)->required();
  add_cluster_flags(app, options.cluster);
  app.add_option("-n,--ranks", options.ranks, "ranks; default: as many as the plan's mesh has")
      ->check(CLI::Range(1, 1 << 20));
  app.add_flag("--steps", options.steps, "time collectives message by message instead of by closed forms");
  app.add_flag("--all-ranks", options.all_ranks, "simulate every rank, even if one could represent several");
  app.add_flag("--no-overlap", options.no_overlap,
               "wait for each collective and each message sent, like a system with one stream");
  app.add_option("--json", options.json, "write the prediction to this file");
  app.add_option("--slow", options.slow, "slow a rank down, e.g. rank=2,factor=3; may be repeated");
  app.add_option("--jitter", options.jitter,
                 "random variation of compute time: the standard deviation of its logarithm, e.g. 0.1")
      ->check(CLI::Range(0.0, 3.0));
  app.add_option("--draws", options.draws, "number of steps to simulate with --jitter; default 32")
      ->check(CLI::Range(1, 100000));
  app.add_option(
      "--failures", options.failures,
      "useful share of the time if devices fail: mtbf=50000h,checkpoint=30s,detect=10s,restart=5min");
  app.add_option(
         "--sweep", options.swept,
         "simulate a step for each of several values of a setting, an axis or key of the plan, or hosts, "
         "like data=8,16,32; data,train.batch=8:64,16:128 changes both together; repeated: all "
         "combinations")
      ->allow_extra_args(false);
  app.add_option("--show", options.shown,
                 fmt::format("what --svg draws of a sweep: {}; default rate",
                             join(bench::sweep_figure_names(), ", ")))
      ->check(CLI::IsMember(bench::sweep_figure_names()));
  app.add_option("--trace", options.trace, "write the timeline of all ranks for Perfetto");
  app.add_option("--svg", options.svg, "write the timeline as a picture, or a sweep as a chart");
  if (const auto code = parse_arguments(app, split)) return *code;
  return run(options);
}

}  // namespace trireme::cli
