// The contract of a MemoryPlan, executable: plays a graph through a plan, remembering which value each piece
// of memory holds, and says what is wrong. Knows nothing of how plans are made.
#pragma once

#include <string>
#include <vector>

#include "trireme/passes/memory.h"

namespace trireme {

// "" when every value is whole whenever it is read, results and workspace of a node do not touch each other
// or its inputs (save where its record allows it), and after the run states hold their new values, outputs
// and inputs what they should, and no state is changed that is not updated.
std::string find_memory_fault(const Graph& graph, const MemoryPlan& plan,
                              const std::vector<size_t>& state_offsets);

}  // namespace trireme
