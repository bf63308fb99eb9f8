// Rebuilds the graph in order, keeping for each old value its f32 and its 16-bit form and casting on demand.
#include "trireme/passes/precision.h"

#include "trireme/base/error.h"
#include "trireme/ir/builder.h"
#include "trireme/ir/scope.h"
#include "trireme/ir/verify.h"

namespace trireme {
namespace {

class Lowering {
 public:
  Lowering(const Graph& from, DType format, const OpTable& ops)
      : from_(from),
        format_(format),
        builder_(ops, from.name),
        same_(from.values.size(), kNoValue),
        other_(from.values.size(), kNoValue) {}

  Graph run() {
    for (size_t i = 0; i < from_.values.size(); ++i) {
      const Value& value = from_.values[i];
      if (value.kind != Value::Kind::kResult) same_[i] = builder_.declare(value);
    }
    for (const Node& node : from_.nodes) add(node);
    for (const Update& update : from_.updates)
      builder_.update(same_[update.state], as(update.value, from_.type(update.value).dtype));
    for (const Output& output : from_.outputs)
      builder_.output(output.name, as(output.value, from_.type(output.value).dtype), output.role);
    return builder_.take();
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
    const std::vector<ValueId> results = builder_.copy(from_, node, inputs, node.attrs);
    for (size_t i = 0; i < results.size(); ++i) same_[node.outputs[i]] = results[i];
  }

  // The new form of an old value in the wanted format. The cast of a result lies in the result's scope;
  // states and inputs have none, and theirs lie in that of the first node that reads them.
  ValueId as(ValueId old, DType wanted, std::string_view scope = "") {
    const ValueId id = same_[old];
    if (builder_.type(id).dtype == wanted) return id;
    if (other_[old] == kNoValue) {
      const Value& value = from_.values[old];
      const std::string path = value.kind == Value::Kind::kResult
                                   ? value.name
                                   : join_scopes(scope, name_within(scope, value.name));
      other_[old] = builder_.op("cast", {id}, {{"to", std::string(name(wanted))}},
                                fmt::format("{}.{}", path, name(wanted)));
    }
    TRIREME_CHECK(builder_.type(other_[old]).dtype == wanted);
    return other_[old];
  }

  const Graph& from_;
  DType format_;
  Builder builder_;
  std::vector<ValueId> same_;   // old value -> the value made in its place
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
