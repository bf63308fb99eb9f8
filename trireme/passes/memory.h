// Plans where every value lies before anything runs: one arena with fixed offsets, and in place where that is
// legal. Lifetimes come from the order of the nodes. The peak it states is what the runtime allocates.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "trireme/ir/graph.h"

namespace trireme {

inline constexpr size_t kMemoryAlignment = 64;

// kComm: comm memory, a second arena, of what collectives make, which the transport uses without a copy.
enum class Space { kArena, kComm, kStates, kInputs };

struct Location {
  Space space = Space::kArena;
  size_t offset = 0;  // bytes from the start of the space
};

struct MemoryPlan {
  std::vector<Location> values;   // per value of the graph
  std::vector<size_t> workspace;  // per node: offset in the arena
  std::vector<size_t> workspace_bytes;
  // Per node, where it starts or waits for several tensors: how many of them after another are one call of
  // the transport, because they are neighbours in memory. They are neighbours by their order, not by their
  // sizes, so that all ranks make the same calls though their parts differ.
  std::vector<std::vector<int64_t>> runs;
  std::vector<Update> copies;     // updates whose value could not be written straight into the state
  size_t arena_bytes = 0;
  size_t comm_bytes = 0;
  size_t input_bytes = 0;
};

// `state_offsets`: per value of the graph, the offset of each state in the space of states (ignored for other
// values). Stashes may overlap where one is read for the last time before, or as, the other is made.
// `workspace_bytes`: per node, the temporary memory that its kernel asks for.
//
// Throws an Error when the old value of a state that is updated is an output or the new value of another
// state: it would be gone by the time that it is read.
MemoryPlan plan_memory(const Graph& graph, const std::vector<size_t>& state_offsets,
                       const std::vector<size_t>& workspace_bytes);

}  // namespace trireme
