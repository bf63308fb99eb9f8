// What the collectives of a rank's graph send.
#pragma once

#include <map>
#include <string>

#include "trireme/ir/graph.h"

namespace trireme {

// Bytes that a rank sends for a collective, by the best algorithm: as bytes_sent() of mesh/change.h says of
// the change that it carries out. 0 for other nodes.
double bytes_sent(const Graph& graph, const Node& node);

struct Traffic {
  std::map<std::string, int> collectives;  // by op: how many
  double bytes = 0;                        // sent by this rank
};
Traffic traffic_of(const Graph& graph);

}  // namespace trireme
