// Building of graphs; see builder.h.
#include "trireme/ir/builder.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/ir/scope.h"

namespace trireme {

Builder::Builder(const OpTable& ops, std::string graph_name) : ops_(ops) {
  graph_.name = std::move(graph_name);
}

Builder::Builder(const OpTable& ops, Graph graph) : ops_(ops), graph_(std::move(graph)) {
  for (size_t i = 0; i < graph_.values.size(); ++i)
    names_.add(graph_.values[i].name, static_cast<ValueId>(i), graph_.values);
}

Builder::Scope::Scope(Builder& builder, std::string_view name) : builder_(builder), outer_(builder.scope_) {
  builder_.scope_ = join_scopes(outer_, name);
}

ValueId Builder::find(std::string_view name) const {
  return names_.find(name, graph_.values);
}

ValueId Builder::input(std::string_view name, TensorType type, Role role) {
  return add_given(name, type, Value::Kind::kInput, role, {});
}

ValueId Builder::state(std::string_view name, TensorType type, Role role, Attrs attrs) {
  return add_given(name, type, Value::Kind::kState, role, std::move(attrs));
}

ValueId Builder::declare(const Value& like, TensorType type) {
  TRIREME_CHECK(like.kind != Value::Kind::kResult);
  return add_given(like.name, type, like.kind, like.role, like.attrs);
}

std::vector<ValueId> Builder::node(std::string_view op, std::vector<ValueId> inputs, Attrs attrs,
                                   std::string_view name) {
  const std::string first = name.empty() ? join_scopes(scope_, op) : std::string(name);
  return add_node(ops_.at(op), std::move(inputs), std::move(attrs), [&](const std::vector<ValueId>& made) {
    return made.empty() ? first : fmt::format("{}.{}", graph_.values[made[0]].name, made.size());
  });
}

std::vector<ValueId> Builder::copy(const Graph& from, const Node& node, std::vector<ValueId> inputs,
                                   Attrs attrs) {
  const OpRecord& record = ops_.at(node.op->name);
  // Passes copy most nodes as they are, and what these make is known. One that was given another op makes
  // something else, also where its inputs have the same types.
  const auto has_its_op = [&] {
    return from.nodes.at(from.values.at(node.outputs.at(0)).node).op == node.op;
  };
  const auto same_type = [&](ValueId here, ValueId there) { return graph_.type(here) == from.type(there); };
  if (std::ranges::equal(inputs, node.inputs, same_type) && attrs == node.attrs && has_its_op()) {
    const int index = static_cast<int>(graph_.nodes.size());
    std::vector<ValueId> outputs;
    for (const ValueId output : node.outputs) {
      const Value& value = from.values.at(output);
      outputs.push_back(add_value(value.name, value.type, Value::Kind::kResult, index));
    }
    graph_.nodes.push_back({&record, std::move(inputs), outputs, std::move(attrs)});
    return outputs;
  }
  return add_node(record, std::move(inputs), std::move(attrs), [&](const std::vector<ValueId>& made) {
    return from.values[node.outputs.at(made.size())].name;
  });
}

template <typename NameOfNext>
std::vector<ValueId> Builder::add_node(const OpRecord& record, std::vector<ValueId> inputs, Attrs attrs,
                                       const NameOfNext& name_of_next) {
  for (ValueId input : inputs) {
    if (input < 0 || input >= static_cast<int>(graph_.values.size()))
      throw_error("[{}] an input is value {}, which graph '{}' does not have", record.name, input,
                  graph_.name);
  }
  const std::vector<TensorType> types = infer_types(record, graph_.types_of(inputs), attrs);
  const int index = static_cast<int>(graph_.nodes.size());
  std::vector<ValueId> outputs;
  for (const TensorType& type : types)
    outputs.push_back(add_value(name_of_next(outputs), type, Value::Kind::kResult, index));
  graph_.nodes.push_back({&record, std::move(inputs), outputs, std::move(attrs)});
  return outputs;
}

ValueId Builder::op(std::string_view op_name, std::vector<ValueId> inputs, Attrs attrs,
                    std::string_view name) {
  return node(op_name, std::move(inputs), std::move(attrs), name).at(0);
}

void Builder::update(ValueId state, ValueId value) {
  if (graph_.values.at(state).kind != Value::Kind::kState)
    throw_error("graph '{}': %{} is updated but is no state", graph_.name, graph_.values[state].name);
  if (type(state) != type(value))
    throw_error("graph '{}': the state %{} is {}, but its new value is {}", graph_.name,
                graph_.values[state].name, to_string(type(state)), to_string(type(value)));
  graph_.updates.push_back({state, value});
}

void Builder::output(std::string_view name, ValueId value, OutputRole role) {
  graph_.outputs.push_back({std::string(name), value, role});
}

// Callers find them by their names, so these are never changed.
ValueId Builder::add_given(std::string_view name, TensorType type, Value::Kind kind, Role role, Attrs attrs) {
  if (name.empty() || find(name) != kNoValue) {
    throw_error("graph '{}': {} needs a name of its own, but %{} {}", graph_.name,
                kind == Value::Kind::kInput ? "an input" : "a state", name,
                name.empty() ? "is none" : "is there already");
  }
  return add_value(name, type, kind, -1, role, std::move(attrs));
}

ValueId Builder::add_value(std::string_view name, TensorType type, Value::Kind kind, int node, Role role,
                           Attrs attrs) {
  const auto value = static_cast<ValueId>(graph_.values.size());
  graph_.values.push_back({unique_name(name, value), type, kind, node, role, std::move(attrs)});
  return value;
}

std::string Builder::unique_name(std::string_view wanted, ValueId value) {
  std::string name(wanted);
  if (names_.add(name, value, graph_.values)) return name;
  int& number = numbers_.try_emplace(name, 1).first->second;
  do name = fmt::format("{}~{}", wanted, ++number);
  while (!names_.add(name, value, graph_.values));
  return name;
}

}  // namespace trireme
