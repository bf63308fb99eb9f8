// See node_joiner.h.
#include "trireme/passes/node_joiner.h"

#include <algorithm>
#include <utility>

#include "trireme/passes/prune.h"

namespace trireme {

NodeJoiner::NodeJoiner(Graph graph, const OpTable& ops)
    : graph_(std::move(graph)),
      ops_(ops),
      removed_(graph_.nodes.size(), false),
      readers_(graph_.readers()),
      kept_(graph_.values.size(), false) {
  for (const Update& update : graph_.updates) kept_[update.value] = true;
  for (const Output& output : graph_.outputs) kept_[output.value] = true;
}

Graph NodeJoiner::result() {
  return without_nodes(std::move(graph_), removed_);
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
