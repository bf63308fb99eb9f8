// See widen.h. Ops take their format from their operands, but for those whose record says that an attribute
// names it.
#include "trireme/passes/widen.h"

#include "trireme/ir/verify.h"

namespace trireme {
namespace {

bool is_half(DType dtype) {
  return is_float(dtype) && size_of(dtype) == 2;
}

}  // namespace

Graph widen(const Graph& graph) {
  Graph result = graph;
  for (Node& node : result.nodes) {
    if (node.op->output_dtype && is_half(result.type(node.outputs[0]).dtype))
      node.attrs.set("to", std::string(name(DType::f32)));
  }
  for (Value& value : result.values) {
    if (is_half(value.type.dtype)) value.type.dtype = DType::f32;
  }
  debug_verify(result);
  return result;
}

}  // namespace trireme
