// Expands everything, looks how that would be spread, and expands again what was worth it.
#include "trireme/passes/expand.h"

#include <algorithm>
#include <unordered_map>

#include "trireme/base/error.h"
#include "trireme/ir/graph_copy.h"
#include "trireme/ir/verify.h"

namespace trireme {
namespace {

struct Expanded {
  Graph graph;
  // Per node of the graph that it came from: what smaller ops take from one another.
  std::vector<std::vector<ValueId>> between;
};

Expanded expand_nodes(const Graph& from, const std::vector<bool>& chosen, const OpTable& ops) {
  GraphCopy copy(from, ops, from.name);
  Builder& b = copy.builder();
  copy.declare_all();
  Expanded result;
  result.between.resize(from.nodes.size());
  for (size_t n = 0; n < from.nodes.size(); ++n) {
    const Node& node = from.nodes[n];
    if (!chosen[n]) {
      copy.add(node);
      continue;
    }
    const ValueId first_value = static_cast<ValueId>(b.graph().values.size());
    const size_t first_node = b.graph().nodes.size();
    const std::vector<ValueId> results =
        node.op->expand(b, copy.inputs_of(node), node.attrs, from.values[node.outputs[0]].name);
    TRIREME_CHECK(results.size() == node.outputs.size());
    for (size_t o = 0; o < results.size(); ++o) {
      TRIREME_CHECK(b.type(results[o]) == from.type(node.outputs[o]));
      copy.set(node.outputs[o], results[o]);
    }
    for (size_t smaller = first_node; smaller < b.graph().nodes.size(); ++smaller) {
      for (ValueId input : b.graph().nodes[smaller].inputs) {
        if (input >= first_value) result.between[n].push_back(input);
      }
    }
  }
  copy.finish();
  result.graph = copy.take();
  return result;
}

bool is_partial(const Layout& layout) {
  return std::ranges::any_of(layout, [](const Placement& placement) { return placement.is_partial(); });
}

// Of those that may be expanded: where a value between the smaller ops is still to be put together.
std::vector<bool> worth_expanding(const Graph& graph, std::vector<bool> chosen, const Mesh& mesh,
                                  const Pins& pins, const OpTable& ops) {
  const Expanded all = expand_nodes(graph, chosen, ops);
  const Spread spread = trireme::spread(all.graph, mesh, pins);
  for (size_t n = 0; n < chosen.size(); ++n) {
    chosen[n] = chosen[n] && std::ranges::any_of(all.between[n],
                                                 [&](ValueId id) { return is_partial(spread.values[id]); });
  }
  return chosen;
}

// First results keep their names, so that another op makes one of that name where it was expanded.
std::vector<bool> expanded_in(const Graph& other, const Graph& graph, std::vector<bool> chosen) {
  std::unordered_map<std::string_view, const OpRecord*> made_by;
  for (const Node& node : other.nodes) made_by.emplace(other.values[node.outputs[0]].name, node.op);
  for (size_t n = 0; n < chosen.size(); ++n) {
    if (!chosen[n]) continue;
    const auto there = made_by.find(graph.values[graph.nodes[n].outputs[0]].name);
    TRIREME_CHECK((there != made_by.end()));
    chosen[n] = there->second != graph.nodes[n].op;
  }
  return chosen;
}

}  // namespace

Graph expand(const Graph& graph, const Mesh& mesh, const Pins& pins, const OpTable& ops, const Alike* alike) {
  std::vector<bool> chosen;
  for (const Node& node : graph.nodes) chosen.push_back(node.op->expand != nullptr);
  if (std::ranges::find(chosen, true) == chosen.end()) return graph;
  chosen = alike ? expanded_in(alike->graph, graph, std::move(chosen))
                 : worth_expanding(graph, std::move(chosen), mesh, pins, ops);
  Graph result = expand_nodes(graph, chosen, ops).graph;
  debug_verify(result);
  return result;
}

}  // namespace trireme
