// Walks the nodes backwards, carrying one gradient per value. Only values that lead to a wanted one take
// part, so that nothing is computed for inputs and frozen weights.
#include "trireme/passes/autodiff.h"

#include <algorithm>
#include <map>

#include "trireme/base/error.h"
#include "trireme/ir/scope.h"

namespace trireme {
namespace {

// For each value: does it depend on one of `wanted`?
std::vector<bool> reached_from(const Graph& graph, const std::vector<ValueId>& wanted) {
  std::vector<bool> reached(graph.values.size(), false);
  for (ValueId value : wanted) reached[value] = true;
  for (const Node& node : graph.nodes) {
    bool any = false;
    for (ValueId input : node.inputs) any = any || reached[input];
    if (!any) continue;
    for (ValueId output : node.outputs) {
      if (is_float(graph.type(output).dtype)) reached[output] = true;
    }
  }
  return reached;
}

}  // namespace

Backward differentiate(Builder& builder, ValueId loss, ValueId seed, const std::vector<ValueId>& wanted) {
  return differentiate(builder, std::vector{loss}, seed, wanted);
}

Backward differentiate(Builder& builder, const std::vector<ValueId>& losses, ValueId seed,
                       const std::vector<ValueId>& wanted) {
  for (ValueId loss : losses) {
    if (builder.shape(loss).rank() != 0)
      throw_error("the loss is {}, but only a scalar can be differentiated", to_string(builder.type(loss)));
  }
  const std::vector<bool> reached = reached_from(builder.graph(), wanted);
  std::vector<ValueId> gradient(builder.graph().values.size(), kNoValue);
  for (ValueId loss : losses) gradient[loss] = seed;

  Backward result;
  std::map<ValueId, std::vector<ValueId>> addends;
  for (ValueId value : wanted) addends[value] = {};
  for (int n = static_cast<int>(builder.graph().nodes.size()) - 1; n >= 0; --n) {
    const Node node = builder.graph().nodes[n];  // a copy: the graph grows below
    std::vector<ValueId> dy;
    for (ValueId output : node.outputs) dy.push_back(gradient[output]);
    bool any = false;
    for (size_t i = 0; i < dy.size(); ++i) {
      if (dy[i] == kNoValue || !reached[node.outputs[i]]) continue;
      any = true;
      if (i > 0 && node.op->differentiable == OpRecord::Results::kFirst) {
        throw_error("[{}] the loss depends on result {}, whose gradient is not offered", node.op->name, i);
      }
    }
    std::vector<bool> wants;
    for (ValueId input : node.inputs) wants.push_back(reached[input]);
    if (!any || std::ranges::find(wants, true) == wants.end()) continue;

    const auto* rule = std::get_if<GradientRule>(&node.op->gradient);
    if (!rule)
      throw_error("[{}] has no gradient: {}", node.op->name,
                  std::get<NotDifferentiable>(node.op->gradient).reason);
    const Builder::Scope scope(builder, join_scopes(scope_of(builder.graph(), node), kGradientPart));
    GradBuilder context(builder, node, dy, wants);
    const std::vector<ValueId> contributions = (*rule)(context);
    TRIREME_CHECK(contributions.size() == node.inputs.size());
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (contributions[i] == kNoValue || !wants[i]) continue;
      ValueId& sum = gradient[node.inputs[i]];
      if (const auto found = addends.find(node.inputs[i]); found != addends.end())
        found->second.push_back(contributions[i]);
      sum = sum == kNoValue ? contributions[i] : builder.op("add", {sum, contributions[i]});
    }
  }
  for (ValueId value : wanted) {
    result.gradients.push_back(gradient[value]);
    result.addends.push_back(addends.at(value));
  }
  return result;
}

}  // namespace trireme
