// Rebuilds the graph in order, keeping for each old value its f32 and its 16-bit form and casting on demand.
#include "trireme/passes/precision.h"

#include "trireme/base/error.h"
#include "trireme/ir/graph_copy.h"
#include "trireme/ir/scope.h"
#include "trireme/ir/verify.h"

namespace trireme {
namespace {

class Lowering {
 public:
  Lowering(const Graph& from, DType format, const OpTable& ops)
      : from_(from), format_(format), copy_(from, ops, from.name), other_(from.values.size(), kNoValue) {}

  Graph run() {
    copy_.declare_all();
    for (const Node& node : from_.nodes) add(node);
    copy_.finish([&](ValueId old) { return as(old, from_.type(old).dtype); });
    return copy_.take();
  }

 private:
  static bool takes_format(const Node& node, size_t input) {
    return input >= node.op->inputs.size() || node.op->inputs[input] == DTypeRule::kFormat;
  }

  void add(const Node& node) {
    const std::string_view scope = scope_of(from_, node);
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool lower = takes_format(node, i) && from_.type(node.inputs[i]).dtype == DType::f32;
      inputs.push_back(as(node.inputs[i], lower ? format_ : from_.type(node.inputs[i]).dtype, scope));
    }
    copy_.add(node, inputs, node.attrs);
  }

  // The new form of an old value in the wanted format. The cast of a result lies in the result's scope;
  // states and inputs have none, and theirs lie in that of the first node that reads them.
  ValueId as(ValueId old, DType wanted, std::string_view scope = "") {
    Builder& builder = copy_.builder();
    const ValueId id = copy_[old];
    if (builder.type(id).dtype == wanted) return id;
    if (other_[old] == kNoValue) {
      const Value& value = from_.values[old];
      const std::string path = value.kind == Value::Kind::kResult
                                   ? value.name
                                   : join_scopes(scope, name_within(scope, value.name));
      other_[old] = builder.op("cast", {id}, {{"to", std::string(name(wanted))}},
                               fmt::format("{}.{}", path, name(wanted)));
    }
    TRIREME_CHECK(builder.type(other_[old]).dtype == wanted);
    return other_[old];
  }

  const Graph& from_;
  DType format_;
  GraphCopy copy_;
  std::vector<ValueId> other_;  // old value -> its cast to the other format, once made
};

}  // namespace

Graph lower_precision(const Graph& graph, DType format, const OpTable& ops) {
  if (format == DType::f32) return graph;
  if (format != DType::f16 && format != DType::bf16)
    throw_error("precision {} is not one of f32, f16, bf16", name(format));
  Graph result = Lowering(graph, format, ops).run();
  debug_verify(result);
  return result;
}

}  // namespace trireme
