// See substitute.h.
#include "trireme/passes/substitute.h"

#include "trireme/base/error.h"
#include "trireme/ir/graph_copy.h"
#include "trireme/ir/verify.h"
#include "trireme/ops/substitute.h"
#include "trireme/passes/prune.h"

namespace trireme {

Graph with_substitutes(const Graph& graph, const OpTable& ops,
                       const std::function<bool(const Node& node)>& has_kernel) {
  GraphCopy copy(graph, ops, graph.name);
  copy.declare_all();
  bool any = false;
  for (const Node& node : graph.nodes) {
    const Substitute substitute = substitute_of(node.op->name);
    if (!substitute || has_kernel(node)) {
      copy.add(node);
      continue;
    }
    any = true;
    const std::vector<ValueId> results =
        substitute(copy.builder(), copy.inputs_of(node), node.attrs, graph.values[node.outputs[0]].name);
    TRIREME_CHECK(results.size() == node.outputs.size());
    for (size_t o = 0; o < results.size(); ++o) {
      TRIREME_CHECK(copy.builder().type(results[o]) == graph.type(node.outputs[o]));
      copy.set(node.outputs[o], results[o]);
    }
  }
  if (!any) return graph;
  copy.finish();
  Graph result = prune(copy.take());
  debug_verify(result);
  return result;
}

}  // namespace trireme
