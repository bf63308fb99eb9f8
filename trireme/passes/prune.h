// Removes nodes on which no output and no update depends.
#pragma once

#include "trireme/ir/graph.h"

namespace trireme {

Graph prune(const Graph& graph);

}  // namespace trireme
