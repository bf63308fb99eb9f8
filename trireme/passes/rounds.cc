// Numbers the rounds forwards for collectives, backwards for what they and later nodes read, then sorts.
#include "trireme/passes/rounds.h"

#include <algorithm>
#include <numeric>

#include "trireme/ir/verify.h"
#include "trireme/mesh/mesh.h"

namespace trireme {
namespace {

std::vector<int> rounds_of(const Graph& graph) {
  std::vector<int> rounds(graph.nodes.size());
  int of_pipe = 0;  // the first round that is free for a collective of stages
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    for (ValueId input : node.inputs) {
      const int maker = graph.values[input].node;
      if (maker >= 0)
        rounds[n] = std::max(rounds[n], rounds[maker] + (graph.nodes[maker].op->collective ? 1 : 0));
    }
    if (!node.op->collective || node.attrs.text("axis", "") != kPipeAxis) continue;
    rounds[n] = std::max(rounds[n], of_pipe);
    of_pipe = rounds[n] + 1;
  }
  const std::vector<std::vector<int>> readers = graph.readers();
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    if (node.op->collective) continue;
    int needed = -1;
    for (ValueId output : node.outputs) {
      for (int reader : readers[output])
        needed = needed < 0 ? rounds[reader] : std::min(needed, rounds[reader]);
    }
    rounds[n] = std::max(rounds[n], needed);
  }
  return rounds;
}

}  // namespace

Graph in_rounds(const Graph& graph) {
  const std::vector<int> rounds = rounds_of(graph);
  std::vector<int> order(graph.nodes.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int n) { return rounds[n]; });
  Graph result = graph;
  for (size_t i = 0; i < order.size(); ++i) {
    result.nodes[i] = graph.nodes[order[i]];
    for (ValueId output : result.nodes[i].outputs) result.values[output].node = static_cast<int>(i);
  }
  debug_verify(result);
  return result;
}

}  // namespace trireme
