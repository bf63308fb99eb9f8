// Counts collectives in a graph.
#include "trireme/passes/traffic.h"

namespace trireme {
namespace {

// A collective that is taken apart in time (passes/bucket.h) counts where it starts.
constexpr std::string_view kStart = "_start", kWait = "_wait";

bool sends(const Node& node) {
  return node.op->scope == OpRecord::Scope::kAxis && !node.op->name.ends_with(kWait);
}

std::string collective_of(const Node& node) {
  std::string_view name = node.op->name;
  if (name.ends_with(kStart)) name.remove_suffix(kStart.size());
  return std::string(name);
}

}  // namespace

double bytes_sent(const Graph& graph, const Node& node) {
  if (!sends(node)) return 0;
  const double ways = static_cast<double>(node.attrs.integer("ways")), share = (ways - 1) / ways;
  double in = 0, out = 0;
  for (ValueId id : node.inputs) in += static_cast<double>(graph.type(id).bytes());
  for (ValueId id : node.outputs) out += static_cast<double>(graph.type(id).bytes());
  if (!node.attrs.has("dim")) return 2 * share * in;  // all_reduce: both sides are whole
  const bool gathers = node.attrs.has("extent") && !node.attrs.has("to_dim");
  return share * (gathers ? out : in);
}

Traffic traffic_of(const Graph& graph) {
  Traffic traffic;
  for (const Node& node : graph.nodes) {
    if (!sends(node)) continue;
    ++traffic.collectives[collective_of(node)];
    traffic.bytes += bytes_sent(graph, node);
  }
  return traffic;
}

}  // namespace trireme
