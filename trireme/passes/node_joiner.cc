// See node_joiner.h.
#include "trireme/passes/node_joiner.h"

#include <algorithm>

#include "trireme/passes/prune.h"

namespace trireme {

NodeJoiner::NodeJoiner(const Graph& graph, const OpTable& ops)
    : graph_(graph),
      ops_(ops),
      removed_(graph.nodes.size(), false),
      readers_(graph.readers()),
      kept_(graph.values.size(), false) {
  for (const Update& update : graph.updates) kept_[update.value] = true;
  for (const Output& output : graph.outputs) kept_[output.value] = true;
}

Graph NodeJoiner::result() const {
  return without_nodes(graph_, removed_);
}

void NodeJoiner::remove(int n) {
  removed_[n] = true;
  for (ValueId input : node(n).inputs) std::erase(readers_[input], n);
}

void NodeJoiner::replace(int n, int earlier, Node joined) {
  removed_[earlier] = true;
  for (ValueId output : joined.outputs) graph_.values[output].node = n;
  for (ValueId input : joined.inputs) {
    std::vector<int>& list = readers_[input];
    std::erase(list, earlier);
    if (std::ranges::find(list, n) == list.end()) list.insert(std::ranges::lower_bound(list, n), n);
  }
  node(n) = std::move(joined);
}

}  // namespace trireme
