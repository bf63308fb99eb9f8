// `trireme inspect graph`: the graph of one segment of a config's step, in the text form that parses back.
// The table of costs is written as comments, so the output stays a graph. With --parallelism, tables of the
// whole step instead (sim/parallelism.h).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <set>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/bench/step_profile.h"
#include "trireme/bench/step_setup.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/step_flags.h"
#include "trireme/ir/text.h"
#include "trireme/mesh/cluster_file.h"
#include "trireme/program/build.h"
#include "trireme/run/config.h"
#include "trireme/sim/parallelism.h"
#include "trireme/train/step_programs.h"

namespace trireme::cli {
namespace {

struct OpCost {
  std::string op;
  int calls = 0;
  Cost cost;
};

std::string cost_table(const Graph& graph) {
  std::map<std::string, OpCost> by_op;
  for (const Node& node : graph.nodes) {
    OpCost& sum = by_op[std::string(node.op->name)];
    const Cost cost = cost_of(graph, node);
    sum.op = node.op->name;
    sum.calls += 1;
    sum.cost.flops += cost.flops;
    sum.cost.bytes += cost.bytes;
  }
  std::vector<OpCost> rows;
  for (auto& [name, row] : by_op) rows.push_back(std::move(row));
  // Most arithmetic first, then most traffic.
  std::ranges::sort(rows, [](const OpCost& a, const OpCost& b) {
    return std::pair(a.cost.flops, a.cost.bytes) > std::pair(b.cost.flops, b.cost.bytes);
  });
  OpCost total{"total", static_cast<int>(graph.nodes.size()), cost_of(graph)};
  rows.push_back(total);
  std::string text =
      fmt::format("#\n# {:<20} {:>6} {:>14} {:>12} {:>11}\n", "op", "nodes", "MFLOP", "MB", "FLOP/byte");
  for (const OpCost& row : rows) {
    text +=
        fmt::format("# {:<20} {:>6} {:>14.3f} {:>12.3f} {:>11.2f}\n", row.op, row.calls, row.cost.flops / 1e6,
                    row.cost.bytes / 1e6, row.cost.bytes > 0 ? row.cost.flops / row.cost.bytes : 0.0);
  }
  return text;
}

const Graph& find_segment(const std::vector<StepSegment>& segments, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& [graph, kind, rows] : segments) {
    if (graph.name == name) return graph;
    names.push_back(graph.name);
  }
  const std::string guess = nearest(name, names);
  throw_error("this step has no segment '{}'{}; it has {}{}", name,
              guess.empty() ? "" : fmt::format(" (did you mean '{}'?)", guess), join(names, ", "),
              name == "next" ? "; `next` exists where train.accumulate is more than 1" : "");
}

// FLOPs with a unit, like 12.3 G.
std::string short_number(double value) {
  for (const auto& [unit, name] : {std::pair(1e15, "P"), {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}) {
    if (value >= unit) return fmt::format("{:.3g} {}", value / unit, name);
  }
  return fmt::format("{:.3g}", value);
}

// Programs of every rank under a plan.
sim::Loads loads_under(const bench::StepSetup& setup, const Plan& plan) {
  const StepPrograms programs(setup.config.model, setup.config.train, setup.config.optim, setup.shape, plan);
  std::vector<Program> all;
  for (int rank = 0; rank < plan.mesh.ranks(); ++rank) all.push_back(programs.rank(rank, nullptr));
  return sim::loads_of(all);
}

int print_parallelism(const bench::StepSource& source, const std::string& cluster_name,
                      const std::string& plan_text, int ranks) {
  const Plan plan = plan_text.empty() ? Plan() : read_plan(plan_text, ranks);
  const bench::StepSetup setup = bench::set_up_step(source, plan);
  const StepGraphs step = step_graphs(setup.config.model, setup.config.train, setup.config.optim, setup.shape,
                                      schedule_of(setup.config.train));
  std::vector<StepSegment> segments;
  std::set<SegmentKind> seen;  // of microbatches, the first
  for (const StepSegment& segment : step.segments) {
    if (segment.kind == SegmentKind::kUpdate ||
        (segment.kind == SegmentKind::kForwardBackward && seen.insert(segment.kind).second))
      segments.emplace_back(optimized(segment.graph), segment.kind, segment.rows);
  }
  const std::vector<sim::Parallelism> rows = sim::parallelism_of(segments);
  const Cluster cluster = cluster_name.empty() ? Cluster() : read_cluster(cluster_name);
  const std::vector<sim::Placement> placements = cluster.devices.empty()
                                                     ? std::vector<sim::Placement>()
                                                     : sim::placements_of(segments, cluster.devices[0]);
  const sim::Loads loads = plan_text.empty() ? sim::Loads() : loads_under(setup, plan);

  fmt::print(
      "{}: {}, a microbatch of {} rows, whole tensors{}{}\n\n", setup.name, setup.config.model.family,
      setup.shape.rows, placements.empty() ? "" : fmt::format(", on {}", cluster.devices[0].name),
      loads.empty() ? "" : fmt::format(", over {} ranks of {}", plan.mesh.ranks(), to_string(plan.mesh)));
  fmt::print("{:<10}{:<24}{:>6} {:>9} {:>9} {:>12} {:>11} {:>10}", "part", "op", "nodes", "FLOPs", "depth",
             "parallelism", "FLOPs/node", "FLOP/byte");
  if (!placements.empty()) fmt::print(" {:>10}  {:<8}", "ms", "limit");
  if (!loads.empty()) fmt::print(" {:>10}", "imbalance");
  fmt::print("\n");
  for (size_t i = 0; i < rows.size(); ++i) {
    const sim::Parallelism& row = rows[i];
    fmt::print("{:<10}{:<24}{:>6} {:>9} {:>9.4g} {:>12} {:>11} {:>10.3g}", name(row.part),
               row.op.empty() ? "all" : row.op, row.nodes, short_number(row.cost.flops), row.depth,
               short_number(row.average()), short_number(row.flops_per_node()), row.flops_per_byte());
    if (!placements.empty())
      fmt::print(" {:>10.4g}  {:<8}", placements[i].seconds * 1e3, name(placements[i].limit));
    if (!loads.empty()) {
      const auto load = loads.find({row.part, row.op});
      fmt::print(" {:>10}",
                 load == loads.end() ? "" : fmt::format("{:.1f}%", 100 * load->second.imbalance()));
    }
    fmt::print("\n");
  }
  return kOk;
}

}  // namespace

int inspect_graph(std::span<const std::string> arguments) {
  const SplitArguments split = split_settings(arguments);
  bench::StepSource source;
  source.settings = split.settings;
  std::string segment = "first";
  bool cost = false;
  CLI::App app("Prints the graph of one part of a training step.", "trireme inspect graph");
  add_step_flags(app, source);
  app.add_option("--segment", segment,
                 "first (forward and backward), next, update or evaluate; default first");
  app.add_flag("--cost", cost, "add a table of FLOPs and bytes by op");
  bool parallelism = false;
  std::string cluster, plan;
  int ranks = 0;
  CLI::Option* table = app.add_flag(
      "--parallelism", parallelism,
      "instead: work, depth, average parallelism and granularity of the step's ops, by part and op");
  app.add_option("--cluster", cluster, "with --parallelism: add the roofline of its first device class")
      ->needs(table);
  add_plan_flag(app, plan)->needs(table);
  app.add_option("-n,--ranks", ranks, "ranks of the plan, to show how unevenly work is divided")
      ->needs(table);
  if (const auto code = parse_arguments(app, split, "\n" + config_help())) return *code;
  if (parallelism) return print_parallelism(source, cluster, plan, ranks);

  const bench::StepSetup setup = bench::set_up_step(source);
  const StepGraphs step = step_graphs(setup.config.model, setup.config.train, setup.config.optim, setup.shape,
                                      schedule_of(setup.config.train));
  const Graph graph = optimized(find_segment(step.segments, segment));
  fmt::print("{}", print(graph));
  if (cost) fmt::print("{}", cost_table(graph));
  return kOk;
}

}  // namespace trireme::cli
