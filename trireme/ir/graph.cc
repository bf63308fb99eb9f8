// Look-ups in a graph; see graph.h.
#include "trireme/ir/graph.h"

#include <algorithm>

namespace trireme {

ValueId Graph::find(std::string_view wanted) const {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].name == wanted) return static_cast<ValueId>(i);
  }
  return kNoValue;
}

bool Graph::has_input(std::string_view wanted) const {
  return std::ranges::any_of(
      values, [&](const Value& value) { return value.kind == Value::Kind::kInput && value.name == wanted; });
}

bool Graph::has_output(std::string_view wanted) const {
  return std::ranges::find(outputs, wanted, &Output::name) != outputs.end();
}

std::vector<TensorType> Graph::types_of(const std::vector<ValueId>& ids) const {
  std::vector<TensorType> types;
  types.reserve(ids.size());
  for (ValueId id : ids) types.push_back(type(id));
  return types;
}

std::vector<std::vector<int>> Graph::readers() const {
  std::vector<std::vector<int>> result(values.size());
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (ValueId input : nodes[n].inputs) {
      std::vector<int>& list = result[input];
      if (list.empty() || list.back() != static_cast<int>(n)) list.push_back(static_cast<int>(n));
    }
  }
  return result;
}

Cost cost_of(const Graph& graph, const Node& node) {
  return cost_of(*node.op, graph.types_of(node.inputs), graph.types_of(node.outputs), node.attrs);
}

Cost cost_of(const Graph& graph) {
  Cost total;
  for (const Node& node : graph.nodes) {
    const Cost cost = cost_of(graph, node);
    total.flops += cost.flops;
    total.bytes += cost.bytes;
  }
  return total;
}

}  // namespace trireme
