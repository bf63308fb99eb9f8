// `trireme simulate`: a step of a config under a plan on a cluster, without data or weights (sim/simulate.h).
#include "trireme/sim/simulate.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/machine.h"
#include "trireme/base/text.h"
#include "trireme/bench/statistics.h"
#include "trireme/bench/step_setup.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/step_flags.h"
#include "trireme/cli/write_file.h"
#include "trireme/plan/clients.h"
#include "trireme/runtime/slowed_communicator.h"
#include "trireme/sim/draw.h"
#include "trireme/sim/goodput.h"
#include "trireme/train/axis_algorithms.h"
#include "trireme/train/step_programs.h"

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
};

// All that is said about a step, for people and for scripts.
struct Prediction {
  sim::SimReport report;
  double model_flops = 0, peak_flops_per_second = 0;
  double units_per_second = 0;

  double utilisation(double flops) const { return flops / (report.step_seconds * peak_flops_per_second); }
};

Prediction predict(const bench::StepSetup& setup, const Plan& plan, const sim::SimOptions& options,
                   const DeviceMap& device_map) {
  const Config& config = setup.config;
  const Model model(config.model);
  const StepPrograms programs(model, config.train, config.optim, setup.shape, plan);
  const long threads = config.train.threads;
  const std::unique_ptr<Device> here = device_here(
      config.train, threads ? static_cast<int>(threads) : std::max(1, thread_count(0) / plan.mesh.ranks()));
  const auto program = [&](int rank) {
    const bool known = here && here->name() == device_map.device(rank).kind;
    return programs.rank(rank, known ? here.get() : nullptr);
  };
  Prediction result{.report = sim::simulate(device_map, program, options),
                    .model_flops = model_flops(model, config.train, setup.shape)};
  result.model_flops *= Clients(plan.agreement, replicas_of(plan.mesh)).busy_share();
  for (const sim::RankReport& rank : result.report.ranks)
    result.peak_flops_per_second += rank.stands_for * rank.device->peak(precision_of(config.train));
  result.units_per_second = static_cast<double>(setup.units_per_step()) / result.report.step_seconds;
  return result;
}

std::string percent(double share) {
  return fmt::format("{:.1f}%", 100 * share);
}

// Of a rank's step, by where it goes.
void print_time(const sim::SimReport& report, const Mesh& mesh) {
  fmt::print("\n{:>7} {:>7} {:>11} {:>11}", "rank", "ranks", "work ms", "bubble ms");
  for (const Axis& axis : mesh.axes()) fmt::print(" {:>11}", axis.name + " ms");
  fmt::print("  (what waits for collectives and messages, by axis)\n");
  for (const sim::RankReport& rank : report.ranks) {
    fmt::print("{:>7} {:>7} {:>11.3f} {:>11.3f}", rank.rank, rank.stands_for, rank.time.work_seconds * 1e3,
               rank.time.bubble_seconds * 1e3);
    for (const double seconds : rank.time.exposed_seconds) fmt::print(" {:>11.3f}", seconds * 1e3);
    fmt::print("\n");
  }
}

void print_memory(const sim::SimReport& report) {
  const sim::RankReport& fullest = report.fullest();
  fmt::print("\nmemory of rank {}, which is the fullest: {} of {}\n", fullest.rank,
             format_bytes(fullest.memory.peak_bytes),
             format_bytes(static_cast<size_t>(fullest.device->memory_bytes)));
  for (const auto& [kind, bytes] : fullest.memory.kinds) {
    if (bytes > 0) fmt::print("  {:<14} {:>12}\n", kind, format_bytes(bytes));
  }
  const double over = static_cast<double>(fullest.memory.peak_bytes) - fullest.device->memory_bytes;
  if (over > 0)
    fmt::print(
        "it does not fit, by {}: more stages or a larger tensor axis, zero1 to zero3, recompute or a "
        "smaller microbatch need less\n",
        format_bytes(static_cast<size_t>(over)));
}

void print_prediction(const Prediction& prediction, const bench::StepSetup& setup,
                      const DeviceMap& device_map, const Plan& plan) {
  const sim::SimReport& report = prediction.report;
  const auto line = [](std::string_view name, const std::string& value) {
    fmt::print("  {:<18} {}\n", name, value);
  };
  fmt::print(
      "{}: {}, {:.1f}M parameters, batch {} of {} in {} microbatches, plan {} on '{}', {} ranks of {}\n",
      setup.name, setup.config.model.family, static_cast<double>(report.parameters) / 1e6,
      setup.config.train.batch, to_string(setup.shape.sample), setup.config.train.accumulate, plan.preset,
      to_string(plan.mesh), plan.mesh.ranks(), device_map.cluster().name);
  line("step", fmt::format("{:.3f} s", report.step_seconds));
  line(fmt::format("{}/s", setup.unit()), fmt::format("{:.0f}", prediction.units_per_second));
  line("MFU, HFU", fmt::format("{}, {}", percent(prediction.utilisation(prediction.model_flops)),
                               percent(prediction.utilisation(report.flops))));
  line("per rank", fmt::format("{:.1f} TFLOP/s of the model, {:.1f} with what is made again",
                               prediction.model_flops / report.step_seconds / plan.mesh.ranks() / 1e12,
                               report.flops / report.step_seconds / plan.mesh.ranks() / 1e12));
  if (report.steps > 1) line("average of", fmt::format("{} steps", report.steps));
  for (const sim::EarlyStep& early : report.early)
    line(fmt::format("steps to {}", early.until),
         fmt::format("{:.3f} s, {} sent by all ranks", early.step_seconds,
                     format_bytes(static_cast<size_t>(early.bytes_sent))));
  line("bubble", percent(report.bubble));
  const sim::RankTime& most = std::ranges::max_element(report.ranks, {}, [](const sim::RankReport& rank) {
                                return rank.time.offload_seconds;
                              })->time;
  if (most.offload_bytes > 0)
    line("offload",
         fmt::format("{} come and go a step, for which the rank that waits most waits {:.3f} ms",
                     format_bytes(static_cast<size_t>(most.offload_bytes)), most.offload_seconds * 1e3));
  for (const Reach reach : {Reach::kInside, Reach::kAcross, Reach::kSpine}) {
    const double bytes = report.bytes[static_cast<size_t>(reach)];
    if (bytes > 0)
      line(fmt::format("bytes {}", name(reach)),
           fmt::format("{} by all ranks", format_bytes(static_cast<size_t>(bytes))));
  }
  double watts = 0, price = 0;
  for (const sim::RankReport& rank : report.ranks) {
    watts += rank.stands_for * rank.device->watts;
    price += rank.stands_for * rank.device->price_per_hour;
  }
  if (watts > 0)
    line("energy", fmt::format("{:.3f} kWh a step at most", watts * report.step_seconds / 3.6e6));
  if (price > 0) line("price", fmt::format("{:.4f} a step", price * report.step_seconds / 3600));
  print_time(report, plan.mesh);
  print_memory(report);
}

nlohmann::ordered_json prediction_json(const Prediction& prediction, const bench::StepSetup& setup,
                                       const DeviceMap& device_map, const Plan& plan) {
  const sim::SimReport& report = prediction.report;
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  for (const sim::RankReport& rank : report.ranks) {
    nlohmann::ordered_json exposed = nlohmann::ordered_json::object(), memory = exposed;
    for (size_t a = 0; a < plan.mesh.axes().size(); ++a)
      exposed[plan.mesh.axes()[a].name] = rank.time.exposed_seconds[a];
    for (const auto& [kind, bytes] : rank.memory.kinds) memory[kind] = bytes;
    ranks.push_back({{"rank", rank.rank},
                     {"stands_for", rank.stands_for},
                     {"work_seconds", rank.time.work_seconds},
                     {"bubble_seconds", rank.time.bubble_seconds},
                     {"offload_seconds", rank.time.offload_seconds},
                     {"offload_bytes", rank.time.offload_bytes},
                     {"exposed_seconds", exposed},
                     {"bytes_sent", rank.time.bytes_sent},
                     {"peak_bytes", rank.memory.peak_bytes},
                     {"memory_bytes", memory}});
  }
  nlohmann::ordered_json result = {
      {"config", setup.name},
      {"plan", plan.preset},
      {"mesh", to_string(plan.mesh)},
      {"cluster", device_map.cluster().name},
      {"ranks", plan.mesh.ranks()},
      {"parameters", report.parameters},
      {"predicted_seconds", report.step_seconds},
      {"steps", report.steps},
      {fmt::format("{}_per_second", setup.unit()), prediction.units_per_second},
      {"model_flops_per_step", prediction.model_flops},
      {"hardware_flops_per_step", report.flops},
      {"model_flops_utilisation", prediction.utilisation(prediction.model_flops)},
      {"hardware_flops_utilisation", prediction.utilisation(report.flops)},
      {"bubble", report.bubble},
      {"bytes_sent", report.bytes_sent},
      {"bytes_inside", report.bytes[0]},
      {"bytes_across", report.bytes[1]},
      {"bytes_spine", report.bytes[2]},
      {"per_rank", ranks}};
  for (const sim::EarlyStep& early : report.early)
    result["early_steps"].push_back({{"until", early.until},
                                     {"predicted_seconds", early.step_seconds},
                                     {"bytes_sent", early.bytes_sent}});
  if (!report.drawn_seconds.empty()) result["drawn_seconds"] = report.drawn_seconds;
  return result;
}

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
      drawn.size(), sum / static_cast<double>(drawn.size()), drawn.front(), bench::quantile_of(drawn, 0.9),
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

int run(const SimulateFlags& options) {
  const Plan plan = read_plan(options.plan, options.ranks);
  std::optional<sim::Failures> failures;
  if (!options.failures.empty()) failures = sim::parse_failures(options.failures);
  const bench::StepSetup setup = bench::set_up_step(options.source, plan);
  const Cluster cluster =
      setup.config.train.tf32 ? with_tf32(options.cluster.read()) : options.cluster.read();
  const DeviceMap device_map(plan.mesh, cluster);
  const Prediction prediction = predict(
      setup, plan,
      {.collectives = options.steps ? sim::CollectiveModel::kSteps : sim::CollectiveModel::kClosedForms,
       .algorithms = axis_algorithms(plan, setup.config.train),
       .ranks = options.all_ranks ? sim::SimOptions::Ranks::kAll : sim::SimOptions::Ranks::kRepresentatives,
       .overlap = options.no_overlap ? sim::Overlap::kNone : sim::Overlap::kAsPlanned,
       .events = options.trace.empty() && options.svg.empty() ? sim::Events::kNone : sim::Events::kRecorded,
       .disturbance = disturbance_of(options, plan.mesh.ranks()),
       .draws = options.draws,
       .plan = plan},
      device_map);
  print_prediction(prediction, setup, device_map, plan);
  print_disturbed(prediction.report.drawn_seconds);
  if (failures) print_goodput(*failures, plan.mesh.ranks());
  if (!options.json.empty())
    write_json(options.json,
               nlohmann::ordered_json::array({prediction_json(prediction, setup, device_map, plan)}));
  if (!options.trace.empty()) write_file(options.trace, sim::trace_of(prediction.report, plan.mesh), "trace");
  if (!options.svg.empty())
    write_file(options.svg,
               sim::draw_svg(prediction.report, plan.mesh,
                             fmt::format("{}, {} on {}", setup.name, to_string(plan.mesh), cluster.name)),
               "picture");
  return kOk;
}

}  // namespace

int simulate(std::span<const std::string> arguments) {
  const SplitArguments split = split_settings(arguments);
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
  app.add_option("--trace", options.trace, "write the timeline of all ranks for Perfetto");
  app.add_option("--svg", options.svg, "write the timeline as a picture");
  if (const auto code = parse_arguments(app, split)) return *code;
  return run(options);
}

}  // namespace trireme::cli
