// Counts collectives in a graph.
#include "trireme/passes/traffic.h"

namespace trireme {

double bytes_sent(const Graph& graph, const Node& node) {
  return bytes_sent(*node.op, graph.types_of(node.inputs), graph.types_of(node.outputs), node.attrs);
}

Traffic traffic_of(const Graph& graph) {
  Traffic traffic;
  for (const Node& node : graph.nodes) {
    if (!node.op->collective || !node.op->collective->sends()) continue;
    ++traffic.collectives[std::string(name(node.op->collective->kind))];
    traffic.bytes += bytes_sent(graph, node);
  }
  return traffic;
}

}  // namespace trireme
