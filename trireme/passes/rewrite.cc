// Compaction of a graph after nodes were taken out.
#include "trireme/passes/rewrite.h"

#include "trireme/base/error.h"

namespace trireme {

Graph without_nodes(const Graph& graph, const std::vector<bool>& removed) {
  Graph result;
  result.name = graph.name;
  std::vector<ValueId> moved(graph.values.size(), kNoValue);
  const auto keep = [&](ValueId id, int node) {
    moved[id] = static_cast<ValueId>(result.values.size());
    result.values.push_back(graph.values[id]);
    result.values.back().node = node;
  };
  const auto map = [&](ValueId id) {
    TRIREME_CHECK(moved[id] != kNoValue);
    return moved[id];
  };
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].kind != Value::Kind::kResult) keep(static_cast<ValueId>(i), -1);
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (removed[n]) continue;
    Node node = graph.nodes[n];
    for (ValueId& input : node.inputs) input = map(input);
    for (ValueId& output : node.outputs) {
      keep(output, static_cast<int>(result.nodes.size()));
      output = moved[output];
    }
    result.nodes.push_back(std::move(node));
  }
  for (const Update& update : graph.updates) result.updates.push_back({map(update.state), map(update.value)});
  for (const Output& output : graph.outputs) result.outputs.push_back({output.name, map(output.value), output.role});
  return result;
}

}  // namespace trireme
