// The specification of a Graph, executable: throws an Error that names the node and what is wrong.
#pragma once

#include "trireme/ir/graph.h"

namespace trireme {

// Names are unique; every value is made once and before it is read; each node's types are those its
// record infers; updates go to states of the same type, once each; outputs exist and have their own names.
void verify(const Graph& graph);

// verify() in debug builds, nothing in release builds: called after every pass.
void debug_verify(const Graph& graph);

}  // namespace trireme
