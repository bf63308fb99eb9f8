// Brings nodes together that a device can do at once: the casts of all weights before everything else, and
// the updates of all weights behind it. A node moves to the front where it reads states and inputs alone, and
// to the end where nobody reads what it makes. No bits change, since no result depends on the order of nodes;
// what is made early or kept late is in memory for longer.
#pragma once

#include <functional>

#include "trireme/ir/graph.h"

namespace trireme {

// Whether a device does several nodes like this one at once.
using GroupQuery = std::function<bool(const Graph& graph, const Node& node)>;

Graph gathered(const Graph& graph, const GroupQuery& groups);

}  // namespace trireme
