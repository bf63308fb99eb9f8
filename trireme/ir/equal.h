// Whether two graphs are the same: value for value and node for node, with the same names.
#pragma once

#include "trireme/ir/graph.h"

namespace trireme {

enum class GraphNames { kCompared, kIgnored };  // of the graphs themselves
bool are_equal(const Graph& a, const Graph& b, GraphNames names = GraphNames::kCompared);

}  // namespace trireme
