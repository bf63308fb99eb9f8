// Counts collectives in a graph.
#include "trireme/passes/traffic.h"

#include <algorithm>

namespace trireme {

double bytes_sent(const Graph& graph, const Node& node) {
  if (node.op->scope != OpRecord::Scope::kAxis) return 0;
  const double ways = static_cast<double>(node.attrs.integer("ways")), share = (ways - 1) / ways;
  double in = 0, out = 0;
  for (ValueId id : node.inputs) in += static_cast<double>(graph.type(id).bytes());
  for (ValueId id : node.outputs) out += static_cast<double>(graph.type(id).bytes());
  if (!node.attrs.has("dim")) return 2 * share * in;  // all_reduce: both sides are whole
  if (node.attrs.has("to_dim")) return share * in;    // all_to_all: both are parts
  return share * std::max(in, out);                   // one side is whole
}

Traffic traffic_of(const Graph& graph) {
  Traffic traffic;
  for (const Node& node : graph.nodes) {
    if (node.op->scope != OpRecord::Scope::kAxis) continue;
    ++traffic.collectives[std::string(node.op->name)];
    traffic.bytes += bytes_sent(graph, node);
  }
  return traffic;
}

}  // namespace trireme
