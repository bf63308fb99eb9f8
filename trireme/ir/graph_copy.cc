// See graph_copy.h.
#include "trireme/ir/graph_copy.h"

#include "trireme/base/error.h"

namespace trireme {

ValueId GraphCopy::operator[](ValueId old) const {
  TRIREME_CHECK(has(old));
  return copies_[old];
}

void GraphCopy::declare_all() {
  for (size_t v = 0; v < from_.values.size(); ++v) {
    if (from_.values[v].kind != Value::Kind::kResult) declare(static_cast<ValueId>(v));
  }
}

std::vector<ValueId> GraphCopy::inputs_of(const Node& node) const {
  std::vector<ValueId> inputs;
  for (ValueId input : node.inputs) inputs.push_back((*this)[input]);
  return inputs;
}

std::vector<ValueId> GraphCopy::add(const Node& node, std::vector<ValueId> inputs, Attrs attrs) {
  std::vector<ValueId> results = builder_.copy(from_, node, std::move(inputs), std::move(attrs));
  for (size_t o = 0; o < results.size(); ++o) set(node.outputs[o], results[o]);
  return results;
}

void GraphCopy::finish() {
  finish([&](ValueId old) { return (*this)[old]; });
}

void GraphCopy::finish(const std::function<ValueId(ValueId)>& value_of) {
  for (const Update& update : from_.updates) builder_.update((*this)[update.state], value_of(update.value));
  for (const Output& output : from_.outputs)
    builder_.output(output.name, value_of(output.value), output.role);
}

}  // namespace trireme
