// `trireme inspect program`: what one rank does under a plan. Layouts and bytes are comments behind the lines
// of the graphs' text form, and so is the table at the end.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/bench/step_setup.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/step_flags.h"
#include "trireme/ir/text.h"
#include "trireme/passes/recompute.h"
#include "trireme/passes/traffic.h"
#include "trireme/program/text.h"
#include "trireme/train/axis_algorithms.h"
#include "trireme/train/trainer.h"

namespace trireme::cli {
namespace {

constexpr std::string_view kCollectives[] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all",
                                             "shift"};

enum class Show { kAll, kCollectivesOnly };

// " {data:0} 128 bytes sent", as a comment; "" where there is nothing to say.
std::string note(const std::vector<ValueId>& values, const Segment& segment, const Mesh& mesh,
                 std::optional<double> bytes = {}) {
  std::string text;
  for (ValueId value : values) {
    const auto layout = segment.layouts.find(segment.graph.values[value].name);
    if (layout != segment.layouts.end()) text += " " + to_string(layout->second, mesh);
  }
  if (bytes) text += fmt::format(" {:.0f} bytes sent", *bytes);
  return text.empty() ? "" : "  #" + text;
}

void print_segment(const Segment& segment, const Mesh& mesh, Show show) {
  const Graph& graph = segment.graph;
  fmt::print("graph {}\n", graph.name);
  for (size_t v = 0; v < graph.values.size() && show == Show::kAll; ++v) {
    if (graph.values[v].kind != Value::Kind::kResult)
      fmt::print("{}{}\n", print_declaration(graph.values[v]),
                 note({static_cast<ValueId>(v)}, segment, mesh));
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const bool collective = node.op->collective.has_value();
    if (show == Show::kCollectivesOnly && !collective) continue;
    fmt::print("{}{}\n", print_node(graph, node),
               note(node.outputs, segment, mesh,
                    collective ? std::optional(bytes_sent(segment, static_cast<int>(n))) : std::nullopt));
  }
  if (show == Show::kAll) fmt::print("{}", print_results(graph));
}

void print_row(std::string_view name, int64_t runs, const Traffic& traffic) {
  std::string counts;
  for (const std::string_view op : kCollectives) {
    const auto found = traffic.collectives.find(std::string(op));
    counts += fmt::format(" {:>14}", found == traffic.collectives.end() ? 0 : found->second);
  }
  fmt::print("# {:<10} {:>4}{} {:>16.0f}\n", name, runs, counts, traffic.bytes);
}

// How often each segment is run in a step, and what that sends.
void print_table(const Program& program) {
  fmt::print("#\n# {:<10} {:>4}", "segment", "runs");
  for (const std::string_view op : kCollectives) fmt::print(" {:>14}", op);
  fmt::print(" {:>16}\n", "bytes sent");
  Traffic step;
  for (const Segment& segment : program.segments) {
    const int64_t runs =
        std::ranges::count(program.list(When::step()).actions, segment.graph.name, &Action::what);
    Traffic traffic = traffic_of(segment.graph);
    traffic.bytes = bytes_sent(segment);
    print_row(segment.graph.name, runs, traffic);
    for (const auto& [op, count] : traffic.collectives)
      step.collectives[op] += count * static_cast<int>(runs);
    step.bytes += traffic.bytes * static_cast<double>(runs);
  }
  print_row("step", 1, step);
}

void print_states(const Program& program) {
  std::map<std::string_view, size_t> by_role;
  for (const State& state : program.states)
    by_role[state.role == Role::kNone ? "other" : name(state.role)] += state.type.bytes();
  fmt::print("#\n# this rank keeps");
  std::string_view separator = " ";
  for (const auto& [role, bytes] : by_role) {
    fmt::print("{}{} of role {}", separator, format_bytes(bytes), role);
    separator = ", ";
  }
  fmt::print("\n");
}

void print_memory(const Program& program) {
  fmt::print("# memory: states {}, arena {}, comm memory {}, inputs {}; planned peak {}\n",
             format_bytes(program.state_bytes), format_bytes(program.arena_bytes),
             format_bytes(program.comm_bytes), format_bytes(program.input_bytes),
             format_bytes(program.peak_bytes()));
  for (const Segment& segment : program.segments) {
    const size_t bytes = kept_bytes(segment.graph);
    if (bytes > 0)
      fmt::print("# {} keeps {} bytes from its forward part for its backward part\n", segment.graph.name,
                 bytes);
  }
}

}  // namespace

int inspect_program(std::span<const std::string> arguments) {
  const SplitArguments split = split_settings(arguments);
  bench::StepSource source;
  source.settings = split.settings;
  std::string plan_text, segment;
  int ranks = 0, rank = 0;
  bool collectives = false, text = false;
  CLI::App app("Prints what one rank does under a plan.", "trireme inspect program");
  add_step_flags(app, source);
  add_plan_flag(app, plan_text)->required();
  app.add_option("-n,--ranks", ranks, "ranks; default: as many as the plan's mesh has")
      ->check(CLI::Range(1, 65536));
  app.add_option("--rank", rank, "the rank to show; default 0");
  app.add_option("--segment", segment, "one of first, next, update, evaluate; default all");
  app.add_flag("--collectives", collectives, "leave out all nodes but collectives");
  app.add_flag("--text", text,
               "the program's whole text form: states, places in memory, and the actions of a step");
  if (const auto code = parse_arguments(app, split)) return *code;

  const Plan plan = read_plan(plan_text, ranks);
  if (rank < 0 || rank >= plan.mesh.ranks())
    throw_error("--rank is {}; the mesh '{}' has ranks 0 to {}", rank, to_string(plan.mesh),
                plan.mesh.ranks() - 1);
  const bench::StepSetup setup = bench::set_up_step(source, plan);
  axis_algorithms(plan, setup.config.train);
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const Program program = step_program(setup.config.model, setup.config.train, setup.config.optim,
                                       setup.shape, *device, {plan, rank});
  if (text) {
    fmt::print("{}", print(program));
    return kOk;
  }
  fmt::print("# rank {} of {}, {} on the mesh '{}'\n", rank, plan.mesh.ranks(), plan.preset,
             to_string(plan.mesh));
  for (const Segment& one : program.segments) {
    if (segment.empty() || segment == one.graph.name)
      print_segment(one, plan.mesh, collectives ? Show::kCollectivesOnly : Show::kAll);
  }
  print_table(program);
  print_states(program);
  print_memory(program);
  return kOk;
}

}  // namespace trireme::cli
