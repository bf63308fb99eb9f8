// One walk from the end: a node stays when one of its results is needed.
#include "trireme/passes/prune.h"

#include "trireme/ir/verify.h"
#include "trireme/passes/rewrite.h"

namespace trireme {

Graph prune(const Graph& graph) {
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
  Graph result = without_nodes(graph, removed);
  debug_verify(result);
  return result;
}

}  // namespace trireme
