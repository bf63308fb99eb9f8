// Lays out the states of all segments, then plans each segment's memory.
#include "trireme/program/program.h"

#include <algorithm>
#include <set>

#include "trireme/base/error.h"

namespace trireme {

const StateSlot* Program::find_state(std::string_view name) const {
  const auto found = state_numbers.find(name);
  return found == state_numbers.end() ? nullptr : &states[found->second];
}

int Program::segment(std::string_view name) const {
  for (size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].graph.name == name) return static_cast<int>(i);
  }
  return -1;
}

namespace {

StatePart part_named(const StateParts& parts, const Value& state) {
  if (const auto found = parts.find(state.name); found != parts.end()) return found->second;
  StatePart whole{state.type.shape, {}, {}, {}};
  for (int64_t extent : state.type.shape) whole.pieces.push_back({{0, extent}});
  return whole;
}

// The names of states that a collective reads or makes.
std::set<std::string_view> exchanged_states(const std::vector<Graph>& graphs) {
  std::set<std::string_view> names;
  for (const Graph& graph : graphs) {
    for (const Node& node : graph.nodes) {
      if (!node.op->collective) continue;
      for (ValueId input : node.inputs) {
        if (graph.values[input].kind == Value::Kind::kState) names.insert(graph.values[input].name);
      }
    }
    for (const Update& update : graph.updates) {
      const int maker = graph.values[update.value].node;
      if (maker >= 0 && graph.nodes[maker].op->collective)
        names.insert(graph.values[update.state].name);
    }
  }
  return names;
}

void add_state(Program& program, const Value& value, const StateParts& parts, const std::string& segment) {
  const StateSlot* slot = program.find_state(value.name);
  if (slot && slot->type != value.type) {
    throw_error("state %{} is {} in segment '{}' but {} before", value.name, to_string(value.type), segment,
                to_string(slot->type));
  }
  if (slot) return;
  program.state_numbers.emplace(value.name, program.states.size());
  program.states.push_back(
      {value.name, value.type, value.attrs, program.state_bytes, part_named(parts, value)});
  program.state_bytes += (value.type.bytes() + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
}

void add_states(Program& program, const std::vector<Graph>& graphs, const StateParts& parts) {
  const std::set<std::string_view> exchanged = exchanged_states(graphs);
  for (const bool by_collectives : {false, true}) {
    if (by_collectives) program.exchanged_from = program.state_bytes;
    for (const Graph& graph : graphs) {
      for (const Value& value : graph.values) {
        if (value.kind == Value::Kind::kState && exchanged.contains(value.name) == by_collectives)
          add_state(program, value, parts, graph.name);
      }
    }
  }
}

}  // namespace

Program build_program(std::vector<Graph> graphs, const WorkspaceQuery& workspace, const StateParts& parts) {
  Program program;
  add_states(program, graphs, parts);
  for (Graph& graph : graphs) {
    std::vector<size_t> state_offsets(graph.values.size(), 0), workspace_bytes;
    for (size_t i = 0; i < graph.values.size(); ++i) {
      if (graph.values[i].kind == Value::Kind::kState)
        state_offsets[i] = program.find_state(graph.values[i].name)->offset;
    }
    for (const Node& node : graph.nodes) workspace_bytes.push_back(workspace(graph, node));
    MemoryPlan memory = plan_memory(graph, state_offsets, workspace_bytes);
    program.arena_bytes = std::max(program.arena_bytes, memory.arena_bytes);
    program.exchange_bytes = std::max(program.exchange_bytes, memory.exchange_bytes);
    program.input_bytes += memory.input_bytes;
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      if (!memory.runs[n].empty()) graph.nodes[n].attrs.set("runs", memory.runs[n]);
    }
    program.segments.push_back({std::move(graph), std::move(memory)});
  }
  return program;
}

}  // namespace trireme
