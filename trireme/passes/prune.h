// Graphs with fewer nodes.
#pragma once

#include <vector>

#include "trireme/ir/graph.h"

namespace trireme {

// Without the nodes on which no output and no update depends.
Graph prune(Graph graph);

// The graph without the nodes marked in `removed`, and without results that no remaining node makes.
// Values get new ids; inputs and states stay even when nothing reads them.
Graph without_nodes(Graph graph, const std::vector<bool>& removed);

}  // namespace trireme
