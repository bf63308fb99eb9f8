// What one rank executes: states that live as long as the run, and segments, each a graph with a place in
// memory for every value. Built from graphs by the passes; the runtime only follows it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "trireme/ir/graph.h"
#include "trireme/passes/memory.h"
#include "trireme/program/state_part.h"

namespace trireme {

struct StateSlot {
  std::string name;
  TensorType type;  // of this rank's part
  Attrs attrs;      // how it starts; see Value::attrs
  size_t offset = 0;
  StatePart part;
};

struct Segment {
  Graph graph;  // its name is the segment's name
  MemoryPlan memory;
};

struct Program {
  std::vector<StateSlot> states;
  std::map<std::string, size_t, std::less<>> state_numbers;  // name -> place in `states`
  std::vector<Segment> segments;
  size_t state_bytes = 0;
  size_t exchanged_from = 0;  // states from this offset on are worked on by collectives
  size_t arena_bytes = 0;     // segments run one after the other and share one arena
  size_t exchange_bytes = 0;  // likewise
  size_t input_bytes = 0;     // each segment has its own inputs

  const StateSlot* find_state(std::string_view name) const;  // null when there is none
  int segment(std::string_view name) const;                  // −1 when there is none
  size_t peak_bytes() const { return state_bytes + arena_bytes + exchange_bytes + input_bytes; }
};

// How much temporary memory the kernel of a node wants; asked of the device that will run the program.
using WorkspaceQuery = std::function<size_t(const Graph& graph, const Node& node)>;

// States come in the order in which graphs name them, those that collectives read or make last: they lie in
// memory of the transport. States of the same name in different graphs are one state and must agree in type.
// A state that `parts` does not name is whole on this rank.
Program build_program(std::vector<Graph> graphs, const WorkspaceQuery& workspace,
                      const StateParts& parts = {});

}  // namespace trireme
