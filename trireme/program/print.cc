// Printing of programs; the format is described in text.h.
#include <fmt/format.h>

#include <algorithm>

#include "trireme/base/text.h"
#include "trireme/ir/text.h"
#include "trireme/program/space_name.h"
#include "trireme/program/text.h"

namespace trireme {
namespace {

int64_t number(size_t bytes) {
  return static_cast<int64_t>(bytes);
}

std::string print_state(const State& state) {
  Attrs at{{"offset", number(state.offset)}, {"slots", int64_t{state.slots}}};
  if (!state.places.empty()) at.set("places", std::vector<int64_t>(state.places.begin(), state.places.end()));
  const Shape& whole = state.part.whole;
  at.set("whole", std::vector<int64_t>(whole.begin(), whole.end()));
  for (size_t d = 0; d < state.part.pieces.size(); ++d) {
    std::vector<int64_t> pieces;
    for (const Part& piece : state.part.pieces[d]) pieces.insert(pieces.end(), {piece.begin, piece.size});
    at.set(fmt::format("dim{}", d), std::move(pieces));
  }
  if (!state.part.axes.empty()) at.set("axes", join(state.part.axes, " "));
  if (!state.part.sums.empty()) at.set("sums", join(state.part.sums, " "));
  if (!state.part.stages.empty())
    at.set("stages", std::vector<int64_t>(state.part.stages.begin(), state.part.stages.end()));
  if (state.group >= 0) at.set("group", int64_t{state.group});
  if (state.group_rows > 0) at.set("group_rows", state.group_rows);
  const Value value{state.name, state.type, Value::Kind::kState, -1, state.role, state.attrs};
  return fmt::format("{}\nat {}\n", print_declaration(value), print(at));
}

std::string print_segment(const Segment& segment) {
  const Graph& graph = segment.graph;
  const MemoryPlan& memory = segment.memory;
  std::string text = fmt::format("segment {} {}\n{}", graph.name, name(segment.kind), print(graph));
  const auto place = [&](ValueId v) {
    text += fmt::format("place %{} {} {}\n", graph.values[v].name, name(memory.values[v].space),
                        memory.values[v].offset);
  };
  for (size_t v = 0; v < graph.values.size(); ++v) {  // in the order of the graph's text
    if (graph.values[v].kind != Value::Kind::kResult) place(static_cast<ValueId>(v));
  }
  for (const Node& node : graph.nodes) std::ranges::for_each(node.outputs, place);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (memory.workspace_bytes[n] > 0)
      text += fmt::format("workspace {} {} {}\n", n, memory.workspace[n], memory.workspace_bytes[n]);
  }
  for (const Update& copy : memory.copies)
    text += fmt::format("copy %{} <- %{}\n", graph.values[copy.state].name, graph.values[copy.value].name);
  return text + fmt::format("sizes {}\n", print(Attrs{{"arena", number(memory.arena_bytes)},
                                                      {"comm", number(memory.comm_bytes)},
                                                      {"inputs", number(memory.input_bytes)}}));
}

std::string print_action(const Action& action) {
  const std::string slot = action.slot == 0 ? "" : fmt::format(" {}", action.slot);
  switch (action.kind) {
    case Action::Kind::kRun:
      return fmt::format("run {} {}{}\n", action.what, action.microbatch, slot);
    case Action::Kind::kSend:
      return fmt::format("send %{} {}{}\n", action.what, action.peer, slot);
    case Action::Kind::kReceive:
      return fmt::format("receive %{} {}{}\n", action.what, action.peer, slot);
    case Action::Kind::kReduce:
      return fmt::format("reduce %{}{}\n", action.what, slot);
    case Action::Kind::kAwait:
      return fmt::format("await %{}{}\n", action.what, slot);
    case Action::Kind::kFetch:
      return fmt::format("fetch {}\n", action.what);
    case Action::Kind::kStore:
      return fmt::format("store {}\n", action.what);
  }
  return "";
}

}  // namespace

std::string print(const Program& program) {
  std::string text = "program\n";
  if (!program.mesh.axes().empty())
    text += fmt::format("mesh {}\nrank {}\n", to_string(program.mesh), program.rank);
  if (program.sums == Schedule::Sums::kInPairs) text += "sums in_pairs\n";
  if (program.parameters > 0) text += fmt::format("parameters {}\n", program.parameters);
  text += fmt::format("memory {}\n", print(Attrs{{"states", number(program.state_bytes)},
                                                 {"comm_from", number(program.comm_from)},
                                                 {"arena", number(program.arena_bytes)},
                                                 {"comm", number(program.comm_bytes)},
                                                 {"inputs", number(program.input_bytes)}}));
  for (const State& state : program.states) text += print_state(state);
  for (const FileGroup& group : program.groups) {
    text += fmt::format("group {} {}\n", group.name,
                        print(Attrs{{"offset", number(group.offset)},
                                    {"file_offset", number(group.file_offset)},
                                    {"bytes", number(group.bytes)},
                                    {"slot", int64_t{group.slot}}}));
  }
  for (const Value& state : program.remote_states)
    text += fmt::format("remote %{}: {} {}\n", state.name, to_string(state.type), name(state.role));
  for (const Segment& segment : program.segments) text += print_segment(segment);
  for (const ActionList& list : program.lists) {
    Attrs attrs{{"when", to_string(list.when)},
                {"rows", list.rows},
                {"begin", list.own.begin},
                {"size", list.own.size},
                {"microbatches", list.microbatches}};
    text += fmt::format("list {} {}\n", list.name, print(attrs));
    for (const Action& action : list.actions) text += print_action(action);
  }
  return text;
}

}  // namespace trireme
