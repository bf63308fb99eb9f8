// What the collectives of a rank's graph send.
#pragma once

#include <map>
#include <string>

#include "trireme/ir/graph.h"

namespace trireme {

// Bytes that a rank sends in a node, as the op's record says; 0 for all but collectives.
double bytes_sent(const Graph& graph, const Node& node);

struct Traffic {
  std::map<std::string, int> collectives;  // by kind: how many; several tensors in a bucket count once
  double bytes = 0;                        // sent by this rank
};
Traffic traffic_of(const Graph& graph);

}  // namespace trireme
