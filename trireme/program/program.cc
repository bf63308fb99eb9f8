// Lays out the states of all segments, then plans each segment's memory.
#include "trireme/program/program.h"

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme {

const StateSlot* Program::find_state(std::string_view name) const {
  const auto found = std::ranges::find(states, name, &StateSlot::name);
  return found == states.end() ? nullptr : &*found;
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

}  // namespace

Program build_program(std::vector<Graph> graphs, const WorkspaceQuery& workspace, const StateParts& parts) {
  Program program;
  for (Graph& graph : graphs) {
    std::vector<size_t> state_offsets(graph.values.size(), 0), workspace_bytes;
    for (size_t i = 0; i < graph.values.size(); ++i) {
      const Value& value = graph.values[i];
      if (value.kind != Value::Kind::kState) continue;
      const StateSlot* slot = program.find_state(value.name);
      if (!slot) {
        program.states.push_back(
            {value.name, value.type, value.attrs, program.state_bytes, part_named(parts, value)});
        program.state_bytes +=
            (value.type.bytes() + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
        slot = &program.states.back();
      }
      if (slot->type != value.type) {
        throw_error("state %{} is {} in segment '{}' but {} before", value.name, to_string(value.type),
                    graph.name, to_string(slot->type));
      }
      state_offsets[i] = slot->offset;
    }
    for (const Node& node : graph.nodes) workspace_bytes.push_back(workspace(graph, node));
    MemoryPlan memory = plan_memory(graph, state_offsets, workspace_bytes);
    program.arena_bytes = std::max(program.arena_bytes, memory.arena_bytes);
    program.input_bytes += memory.input_bytes;
    program.segments.push_back({std::move(graph), std::move(memory)});
  }
  return program;
}

}  // namespace trireme
