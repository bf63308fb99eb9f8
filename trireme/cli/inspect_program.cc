// `trireme inspect program`: what one rank does under a plan. Layouts and bytes are comments behind the lines
// of the graphs' text form, and so is the table at the end.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/inspect_commands.h"
#include "trireme/cli/step_setup.h"
#include "trireme/ir/text.h"
#include "trireme/passes/traffic.h"
#include "trireme/train/plan_settings.h"
#include "trireme/train/rank_graphs.h"

namespace trireme::cli {
namespace {

constexpr std::string_view kCollectives[] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all"};

enum class Show { kAll, kCollectivesOnly };

// The names of the values that a line of a graph's text makes.
std::vector<std::string> names_in(std::string_view line) {
  std::vector<std::string> names;
  const std::string_view made = line.substr(0, line.find(" = "));
  for (size_t at = made.find('%'); at != made.npos; at = made.find('%', at + 1)) {
    const size_t end = made.find(':', at);
    if (end == made.npos) break;
    names.emplace_back(made.substr(at + 1, end - at - 1));
  }
  return names;
}

void print_segment(const Graph& graph, const NamedLayouts& layouts, const Mesh& mesh, Show show) {
  std::map<std::string, double, std::less<>> bytes;  // by the collective's result
  for (const Node& node : graph.nodes) {
    if (node.op->collective)
      bytes[graph.values[node.outputs[0]].name] = bytes_sent(graph, node);
  }
  for (const std::string& line : split(print(graph), '\n')) {
    std::string note;
    bool collective = false;
    for (const std::string& name : names_in(line)) {
      const auto layout = layouts.find(name);
      if (layout != layouts.end()) note += " " + to_string(layout->second, mesh);
      const auto sent = bytes.find(name);
      if (sent == bytes.end()) continue;
      note += fmt::format(" {:.0f} bytes sent", sent->second);
      collective = true;
    }
    if (show == Show::kCollectivesOnly && !collective && !line.starts_with("graph ")) continue;
    fmt::print("{}{}{}\n", line, note.empty() ? "" : "  #", note);
  }
}

void print_row(std::string_view name, int64_t runs, const Traffic& traffic) {
  std::string counts;
  for (const std::string_view op : kCollectives) {
    const auto found = traffic.collectives.find(std::string(op));
    counts += fmt::format(" {:>14}", found == traffic.collectives.end() ? 0 : found->second);
  }
  fmt::print("# {:<10} {:>4}{} {:>16.0f}\n", name, runs, counts, traffic.bytes);
}

// Evaluation is no part of a step.
void print_table(const std::vector<Graph>& graphs, int64_t accumulate) {
  fmt::print("#\n# {:<10} {:>4}", "segment", "runs");
  for (const std::string_view op : kCollectives) fmt::print(" {:>14}", op);
  fmt::print(" {:>16}\n", "bytes sent");
  Traffic step;
  for (const Graph& graph : graphs) {
    const int64_t runs = graph.name == "next" ? accumulate - 1 : graph.name == "evaluate" ? 0 : 1;
    const Traffic traffic = traffic_of(graph);
    print_row(graph.name, runs, traffic);
    for (const auto& [op, count] : traffic.collectives)
      step.collectives[op] += count * static_cast<int>(runs);
    step.bytes += traffic.bytes * static_cast<double>(runs);
  }
  print_row("step", 1, step);
}

void print_states(const std::vector<Graph>& graphs) {
  std::map<std::string, size_t> by_role;
  std::map<std::string, bool> seen;
  for (const Graph& graph : graphs) {
    for (const Value& value : graph.values) {
      if (value.kind != Value::Kind::kState || seen[value.name]) continue;
      seen[value.name] = true;
      by_role[std::string(value.attrs.text("role", "other"))] += value.type.bytes();
    }
  }
  fmt::print("#\n# this rank keeps");
  std::string_view separator = " ";
  for (const auto& [role, bytes] : by_role) {
    fmt::print("{}{} of role {}", separator, format_bytes(bytes), role);
    separator = ", ";
  }
  fmt::print("\n");
}

}  // namespace

int inspect_program(std::span<const std::string> arguments) {
  const SplitArguments split = split_settings(arguments);
  StepSource source;
  source.settings = split.settings;
  std::string plan_text, segment;
  int ranks = 0, rank = 0;
  bool collectives = false;
  CLI::App app("Prints what one rank does under a plan.", "trireme inspect program");
  app.add_option("config", source.config_path, "a TOML file; without one, the defaults of `trireme train`");
  app.add_option("--preset", source.preset, fmt::format("one of {}", join(preset_names(), ", ")));
  app.add_option("--image", source.image, "size of images, like 3x32x32");
  app.add_option("--plan", plan_text, fmt::format("a JSON file, or {}", join(preset_plans(), ", ")))
      ->required();
  app.add_option("-n,--ranks", ranks, "ranks; default: as many as the plan's mesh has")
      ->check(CLI::Range(1, 65536));
  app.add_option("--rank", rank, "which one; default 0");
  app.add_option("--segment", segment, "one of first, next, update, evaluate; default all");
  app.add_flag("--collectives", collectives, "leave out all nodes but collectives");
  if (const auto code = parse_arguments(app, split.own)) return *code;

  const Plan plan = read_plan(plan_text, ranks);
  if (rank < 0 || rank >= plan.mesh.ranks())
    throw_error("--rank is {}; the mesh '{}' has ranks 0 to {}", rank, to_string(plan.mesh),
                plan.mesh.ranks() - 1);
  const StepSetup setup = set_up_step(source, plan);
  axis_algorithms(plan, setup.config.train);
  const RankGraphs local =
      rank_graphs(step_graphs(setup.config.model, setup.config.train, setup.config.optim, setup.shape).graphs,
                  plan, rank);
  fmt::print("# rank {} of {}, {} on the mesh '{}'\n", rank, plan.mesh.ranks(), plan.preset,
             to_string(plan.mesh));
  for (size_t g = 0; g < local.graphs.size(); ++g) {
    if (!segment.empty() && segment != local.graphs[g].name) continue;
    print_segment(local.graphs[g], local.layouts[g], plan.mesh,
                  collectives ? Show::kCollectivesOnly : Show::kAll);
  }
  print_table(local.graphs, setup.config.train.accumulate);
  print_states(local.graphs);
  return kOk;
}

}  // namespace trireme::cli
