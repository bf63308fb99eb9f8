// Graphs from bytes of any kind: they are refused with an Error or parse to a graph that holds together. What
// parsed prints to text that parses to itself, passes the verifier before and after each pass, has a cost and
// a place in memory, and, where it has a scalar loss, can be differentiated or says why not.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/ir/builder.h"
#include "trireme/ir/text.h"
#include "trireme/ir/verify.h"
#include "trireme/ops/table.h"
#include "trireme/passes/autodiff.h"
#include "trireme/passes/fuse.h"
#include "trireme/passes/memory.h"
#include "trireme/passes/precision.h"
#include "trireme/passes/prune.h"

namespace trireme {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

// Such graphs are legal, but bytes of a plan must not overflow; nobody owns as much memory.
bool is_plannable(const Graph& graph) {
  size_t bytes = 0;
  for (const Value& value : graph.values) bytes += value.type.bytes();
  return bytes < (size_t{1} << 60);
}

void plan(const Graph& graph) {
  if (!is_plannable(graph)) return;
  try {
    plan_memory(graph, std::vector<size_t>(graph.values.size()), std::vector<size_t>(graph.nodes.size()));
  } catch (const Error&) {  // updates that would have to swap states are refused here
  }
}

// The graph with gradients of all its f32 states, or none when an op on the way has no gradient.
std::optional<Graph> with_gradients(const Graph& graph) {
  for (const Output& output : graph.outputs) {
    if (output.name != "loss" || graph.type(output.value) != TensorType{DType::f32, {}}) continue;
    std::vector<ValueId> wanted;
    for (size_t i = 0; i < graph.values.size(); ++i) {
      const Value& value = graph.values[i];
      if (value.kind == Value::Kind::kState && value.type.dtype == DType::f32)
        wanted.push_back(static_cast<ValueId>(i));
    }
    Builder b(ops(), graph);
    try {
      const ValueId seed = b.input("seed", {DType::f32, {}});
      const std::vector<ValueId> gradients = differentiate(b, output.value, seed, wanted).gradients;
      for (size_t i = 0; i < wanted.size(); ++i) {
        if (gradients[i] == kNoValue) continue;
        require(b.type(gradients[i]) == b.type(wanted[i]));
        b.output("gradient/" + std::to_string(i), gradients[i]);
      }
    } catch (const Error&) {
      return std::nullopt;
    }
    return b.take();
  }
  return std::nullopt;
}

void check(const Graph& graph) {
  verify(graph);
  for (const Node& node : graph.nodes) {
    const Cost cost = cost_of(*node.op, graph.types_of(node.inputs), node.attrs);
    require(std::isfinite(cost.flops) && cost.flops >= 0 && cost.bytes >= 0);
  }
  for (const Graph& result : {prune(graph), fuse(graph, ops()), lower_precision(graph, DType::bf16, ops())}) {
    verify(result);
    plan(result);
  }
  plan(graph);
}

}  // namespace
}  // namespace trireme

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  Graph graph;
  try {
    graph = parse_graph(std::string_view(reinterpret_cast<const char*>(data), size), ops());
  } catch (const Error&) {
    return 0;
  }
  // Outside the try: a refusal from here on is a finding.
  const std::string text = print(graph);
  require(print(parse_graph(text, ops())) == text);
  check(graph);
  if (const std::optional<Graph> backward = with_gradients(graph)) check(*backward);
  return 0;
}
