// `trireme inspect graph`: the graph of one segment of a config's step, in the text form that parses back.
// The table of costs is written as comments, so the output stays a graph.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/bench/step_profile.h"
#include "trireme/bench/step_setup.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/inspect_commands.h"
#include "trireme/cli/step_flags.h"
#include "trireme/ir/text.h"
#include "trireme/program/build.h"
#include "trireme/train/config.h"

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
  if (const auto code = parse_arguments(app, split.own, "\n" + config_help())) return *code;

  const bench::StepSetup setup = bench::set_up_step(source);
  const StepGraphs step = step_graphs(setup.config.model, setup.config.train, setup.config.optim, setup.shape,
                                      schedule_of(setup.config.train));
  const Graph graph = optimized(find_segment(step.segments, segment));
  fmt::print("{}", print(graph));
  if (cost) fmt::print("{}", cost_table(graph));
  return kOk;
}

}  // namespace trireme::cli
