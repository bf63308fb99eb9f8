// The checks of verify.h, in the order in which they are named there.
#include "trireme/ir/verify.h"

#include <set>
#include <unordered_set>

#include "trireme/base/error.h"

namespace trireme {
namespace {

bool fits(Role role, Value::Kind kind) {
  if (role == Role::kNone) return true;
  const bool of_input = role == Role::kBatch || role == Role::kRng || role == Role::kScalar;
  return kind == (of_input ? Value::Kind::kInput : Value::Kind::kState);
}

std::string_view words(Value::Kind kind) {
  return kind == Value::Kind::kInput ? "an input" : kind == Value::Kind::kState ? "a state" : "a result";
}

void verify_node(const Graph& graph, int index, std::vector<bool>& made) {
  const Node& node = graph.nodes[index];
  const auto where = [&] {
    return fmt::format("graph '{}', node {} ({})", graph.name, index, node.op ? node.op->name : "no op");
  };
  if (!node.op) throw_error("{}: the op is missing", where());
  for (ValueId input : node.inputs) {
    if (input < 0 || input >= static_cast<int>(graph.values.size()))
      throw_error("{}: reads value {}, which does not exist", where(), input);
    if (!made[input]) throw_error("{}: reads %{} before it is made", where(), graph.values[input].name);
  }
  std::vector<TensorType> types;
  try {
    types = infer_types(*node.op, graph.types_of(node.inputs), node.attrs);
  } catch (const Error& error) {
    throw_error("{}: {}", where(), error.what());
  }
  if (types.size() != node.outputs.size()) {
    throw_error("{}: has {} results, but the op makes {}", where(), node.outputs.size(), types.size());
  }
  for (size_t i = 0; i < types.size(); ++i) {
    const ValueId id = node.outputs[i];
    if (id < 0 || id >= static_cast<int>(graph.values.size()))
      throw_error("{}: makes value {}, which does not exist", where(), id);
    const Value& value = graph.values[id];
    if (made[id]) throw_error("{}: makes %{} a second time", where(), value.name);
    if (value.kind != Value::Kind::kResult || value.node != index)
      throw_error("{}: %{} does not name it as its maker", where(), value.name);
    if (value.type != types[i]) {
      throw_error("{}: %{} is {}, but the op makes {}", where(), value.name, to_string(value.type),
                  to_string(types[i]));
    }
    made[id] = true;
  }
}

}  // namespace

void verify(const Graph& graph) {
  std::unordered_set<std::string> names;
  std::vector<bool> made(graph.values.size(), false);
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (!names.insert(value.name).second)
      throw_error("graph '{}': two values are called %{}", graph.name, value.name);
    made[i] = value.kind != Value::Kind::kResult;
    if (!fits(value.role, value.kind))
      throw_error("graph '{}': %{} is {}, which can not have the role {}", graph.name, value.name,
                  words(value.kind), name(value.role));
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) verify_node(graph, static_cast<int>(n), made);
  for (size_t i = 0; i < made.size(); ++i) {
    if (!made[i]) throw_error("graph '{}': no node makes %{}", graph.name, graph.values[i].name);
  }
  std::set<ValueId> updated;
  const auto exists = [&](ValueId id) { return id >= 0 && id < static_cast<int>(graph.values.size()); };
  for (const Update& update : graph.updates) {
    if (!exists(update.state) || !exists(update.value)) {
      throw_error("graph '{}': an update names value {} or {}, which does not exist", graph.name,
                  update.state, update.value);
    }
    const Value &state = graph.values[update.state], &value = graph.values[update.value];
    if (state.kind != Value::Kind::kState)
      throw_error("graph '{}': %{} is updated but is no state", graph.name, state.name);
    if (!updated.insert(update.state).second)
      throw_error("graph '{}': %{} is updated twice", graph.name, state.name);
    if (state.type != value.type) {
      throw_error("graph '{}': the state %{} is {} but its new value %{} is {}", graph.name, state.name,
                  to_string(state.type), value.name, to_string(value.type));
    }
  }
  std::set<std::string_view> outputs;
  for (const Output& output : graph.outputs) {
    if (!exists(output.value)) throw_error("graph '{}': output '{}' names no value", graph.name, output.name);
    if (!outputs.insert(output.name).second)
      throw_error("graph '{}': two outputs are called '{}'", graph.name, output.name);
  }
}

void debug_verify([[maybe_unused]] const Graph& graph) {
#ifndef NDEBUG
  verify(graph);
#endif
}

}  // namespace trireme
