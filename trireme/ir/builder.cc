// Building of graphs; see builder.h.
#include "trireme/ir/builder.h"

#include "trireme/base/error.h"

namespace trireme {

Builder::Builder(const OpTable& ops, std::string graph_name) : ops_(ops) {
  graph_.name = std::move(graph_name);
}

Builder::Builder(const OpTable& ops, Graph graph) : ops_(ops), graph_(std::move(graph)) {
  for (size_t i = 0; i < graph_.values.size(); ++i)
    names_.emplace(graph_.values[i].name, static_cast<ValueId>(i));
}

ValueId Builder::find(const std::string& name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? kNoValue : found->second;
}

ValueId Builder::input(std::string_view name, TensorType type, Role role) {
  return add_value(name, type, Value::Kind::kInput, -1, role);
}

ValueId Builder::state(std::string_view name, TensorType type, Role role, Attrs attrs) {
  return add_value(name, type, Value::Kind::kState, -1, role, std::move(attrs));
}

ValueId Builder::declare(const Value& like, TensorType type) {
  TRIREME_CHECK(like.kind != Value::Kind::kResult);
  return add_value(like.name, type, like.kind, -1, like.role, like.attrs);
}

std::vector<ValueId> Builder::node(std::string_view op, std::vector<ValueId> inputs, Attrs attrs,
                                   std::string_view name) {
  const OpRecord& record = ops_.at(op);
  for (ValueId input : inputs) {
    TRIREME_CHECK(input >= 0);
    TRIREME_CHECK(input < static_cast<int>(graph_.values.size()));
  }
  const std::vector<TensorType> types = infer_types(record, graph_.types_of(inputs), attrs);
  const int index = static_cast<int>(graph_.nodes.size());
  std::vector<ValueId> outputs;
  for (size_t i = 0; i < types.size(); ++i) {
    const std::string wanted = name.empty() ? "" : i == 0 ? std::string(name) : fmt::format("{}.{}", name, i);
    outputs.push_back(add_value(wanted, types[i], Value::Kind::kResult, index));
  }
  graph_.nodes.push_back({&record, std::move(inputs), outputs, std::move(attrs)});
  return outputs;
}

ValueId Builder::op(std::string_view op_name, std::vector<ValueId> inputs, Attrs attrs,
                    std::string_view name) {
  return node(op_name, std::move(inputs), std::move(attrs), name).at(0);
}

void Builder::update(ValueId state, ValueId value) {
  TRIREME_CHECK(graph_.values.at(state).kind == Value::Kind::kState);
  TRIREME_CHECK(type(state) == type(value));
  graph_.updates.push_back({state, value});
}

void Builder::output(std::string_view name, ValueId value, OutputRole role) {
  graph_.outputs.push_back({std::string(name), value, role});
}

ValueId Builder::add_value(std::string_view name, TensorType type, Value::Kind kind, int node, Role role,
                           Attrs attrs) {
  const auto value = static_cast<ValueId>(graph_.values.size());
  graph_.values.push_back({unique_name(name, value), type, kind, node, role, std::move(attrs)});
  return value;
}

std::string Builder::unique_name(std::string_view wanted, ValueId value) {
  if (!wanted.empty() && names_.emplace(wanted, value).second) return std::string(wanted);
  for (;;) {
    std::string name =
        wanted.empty() ? std::to_string(next_number_++) : fmt::format("{}~{}", wanted, next_number_++);
    if (names_.emplace(name, value).second) return name;
  }
}

}  // namespace trireme
