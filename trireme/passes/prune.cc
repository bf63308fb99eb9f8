// What is needed is found in one walk from the end: a node stays when one of its results is needed.
#include "trireme/passes/prune.h"

#include <utility>

#include "trireme/base/error.h"
#include "trireme/ir/verify.h"

namespace trireme {

Graph prune(Graph graph) {
  std::vector<bool> needed(graph.values.size(), false);
  for (const Update& update : graph.updates) needed[update.value] = true;
  for (const Output& output : graph.outputs) needed[output.value] = true;
  std::vector<bool> removed(graph.nodes.size(), false);
  for (int n = static_cast<int>(graph.nodes.size()) - 1; n >= 0; --n) {
    const Node& node = graph.nodes[n];
    bool any = false;
    for (ValueId output : node.outputs) any = any || needed[output];
    removed[n] = !any;
    if (!any) continue;
    for (ValueId input : node.inputs) needed[input] = true;
  }
  Graph result = without_nodes(std::move(graph), removed);
  debug_verify(result);
  return result;
}

Graph without_nodes(Graph graph, const std::vector<bool>& removed) {
  Graph result;
  result.name = graph.name;
  result.values.reserve(graph.values.size());
  result.nodes.reserve(graph.nodes.size());
  std::vector<ValueId> moved(graph.values.size(), kNoValue);
  const auto keep = [&](ValueId id, int node) {
    moved[id] = static_cast<ValueId>(result.values.size());
    result.values.push_back(std::move(graph.values[id]));
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
    Node node = std::move(graph.nodes[n]);
    for (ValueId& input : node.inputs) input = map(input);
    for (ValueId& output : node.outputs) {
      keep(output, static_cast<int>(result.nodes.size()));
      output = moved[output];
    }
    result.nodes.push_back(std::move(node));
  }
  for (const Update& update : graph.updates) result.updates.push_back({map(update.state), map(update.value)});
  for (Output& output : graph.outputs)
    result.outputs.push_back({std::move(output.name), map(output.value), output.role});
  return result;
}

}  // namespace trireme
