// See second_holder.h.
#include "trireme/passes/second_holder.h"

#include <fmt/format.h>

#include "trireme/ir/builder.h"
#include "trireme/ir/verify.h"

namespace trireme {
namespace {

Value second_of(Value state) {
  // The gradient whose addend it is, which may be an addend already.
  state.attrs.set("addend_of", std::string(state.attrs.text("addend_of", state.name)));
  state.name = second_name(state.name);
  return state;
}

}  // namespace

std::string second_name(std::string_view gradient) {
  return fmt::format("{}~second", gradient);
}

Graph for_second_holder(Graph piece) {
  for (Value& value : piece.values) {
    if (value.kind == Value::Kind::kState && value.role == Role::kGradient)
      value = second_of(std::move(value));
  }
  return piece;
}

Graph with_sums_of_holders(const Graph& update, const std::set<std::string, std::less<>>& gradients,
                           const OpTable& ops) {
  Builder b(ops, update.name);
  std::vector<ValueId> moved(update.values.size(), kNoValue);
  for (size_t v = 0; v < update.values.size(); ++v) {
    if (update.values[v].kind != Value::Kind::kResult) moved[v] = b.declare(update.values[v]);
  }
  for (size_t v = 0; v < update.values.size(); ++v) {
    const Value& value = update.values[v];
    if (value.kind != Value::Kind::kState || !gradients.contains(value.name)) continue;
    moved[v] = b.op("add", {moved[v], b.declare(second_of(value))}, {}, value.name + ".of_holders");
  }
  for (const Node& node : update.nodes) {
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) inputs.push_back(moved[input]);
    const std::vector<ValueId> results = b.copy(update, node, std::move(inputs), node.attrs);
    for (size_t o = 0; o < results.size(); ++o) moved[node.outputs[o]] = results[o];
  }
  for (const Update& renewed : update.updates) b.update(moved[renewed.state], moved[renewed.value]);
  for (const Output& output : update.outputs) b.output(output.name, moved[output.value], output.role);
  debug_verify(b.graph());
  return b.take();
}

}  // namespace trireme
