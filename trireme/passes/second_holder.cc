// See second_holder.h.
#include "trireme/passes/second_holder.h"

#include <fmt/format.h>

#include "trireme/ir/graph_copy.h"
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
  GraphCopy copy(update, ops, update.name);
  Builder& b = copy.builder();
  copy.declare_all();
  for (size_t v = 0; v < update.values.size(); ++v) {
    const Value& value = update.values[v];
    if (value.kind != Value::Kind::kState || !gradients.contains(value.name)) continue;
    const auto id = static_cast<ValueId>(v);
    copy.set(id, b.op("add", {copy[id], b.declare(second_of(value))}, {}, value.name + ".of_holders"));
  }
  for (const Node& node : update.nodes) copy.add(node);
  copy.finish();
  debug_verify(b.graph());
  return copy.take();
}

}  // namespace trireme
