// See half_weights.h. Casts are recognised by their record: the result's format is an attribute.
#include "trireme/passes/half_weights.h"

#include "trireme/base/error.h"
#include "trireme/ir/trained.h"
#include "trireme/ir/verify.h"
#include "trireme/passes/prune.h"

namespace trireme {
namespace {

bool rounds_to(const Graph& graph, const Node& node, DType format) {
  return node.op->output_dtype && graph.type(node.outputs[0]).dtype == format;
}

// A frozen one stays in f32: it has no master that would keep its bits.
bool is_f32_parameter(const Value& value) {
  return is_trained(value) && value.type.dtype == DType::f32;
}

}  // namespace

std::set<std::string> rounded_parameters(const Graph& graph, DType format) {
  std::set<std::string> result;
  std::vector<bool> otherwise(graph.values.size());
  for (const Node& node : graph.nodes) {
    if (rounds_to(graph, node, format)) continue;
    for (ValueId input : node.inputs) otherwise[input] = true;
  }
  for (const Update& update : graph.updates) otherwise[update.state] = otherwise[update.value] = true;
  for (const Output& output : graph.outputs) otherwise[output.value] = true;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (is_f32_parameter(graph.values[v]) && !otherwise[v]) result.insert(graph.values[v].name);
  }
  return result;
}

Graph with_half_weights(const Graph& graph, const std::set<std::string>& names, DType format) {
  Graph result = graph;
  std::vector<ValueId> instead(graph.values.size());
  for (size_t v = 0; v < instead.size(); ++v) instead[v] = static_cast<ValueId>(v);
  for (Value& value : result.values) {
    if (is_f32_parameter(value) && names.contains(value.name)) value.type.dtype = format;
  }
  std::vector<bool> removed(graph.nodes.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    Node& node = result.nodes[n];
    for (ValueId& input : node.inputs) input = instead[input];
    // As it was: what a cast made is the weight now, but who reads that is no cast.
    const std::vector<ValueId>& before = graph.nodes[n].inputs;
    if (before.empty() || result.type(before[0]) == graph.type(before[0])) continue;
    TRIREME_CHECK(rounds_to(graph, node, format));
    removed[n] = true;
    instead[node.outputs[0]] = before[0];
  }
  for (Update& update : result.updates) update.value = instead[update.value];
  for (Output& output : result.outputs) output.value = instead[output.value];
  result = without_nodes(result, removed);
  debug_verify(result);
  return result;
}

}  // namespace trireme
