// See import.h.
#include "trireme/onnx/import.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "trireme/base/text.h"
#include "trireme/onnx/node.h"

namespace trireme::onnx {
namespace {

const std::map<std::string_view, Lowering>& lowerings() {
  static const std::map<std::string_view, Lowering> table = [] {
    std::map<std::string_view, Lowering> all;
    for (const auto group : {elementwise_ops, shape_ops, gather_ops, reduce_ops, product_ops, pool_ops,
                             norm_ops, loss_ops, resize_ops}) {
      for (const LoweringEntry& entry : group()) {
        const bool added = all.emplace(entry.op, entry.lower).second;
        TRIREME_CHECK(added);
      }
    }
    return all;
  }();
  return table;
}

// The scope of "/layer1/layer1.0/conv1/Conv" is layer1/layer1.0/conv1; where nodes have no path, there is
// none.
std::string scope_of_node(const NodeEntry& node) {
  const size_t last = node.name.find_last_of('/');
  if (last == std::string::npos || last == 0) return "";
  std::string scope = node.name.substr(node.name[0] == '/' ? 1 : 0, last - (node.name[0] == '/' ? 1 : 0));
  for (char& c : scope) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '/';
    if (!plain) c = '_';
  }
  return scope;
}

std::string described(const File& file, const NodeEntry& node) {
  const std::string which =
      node.name.empty() && !node.outputs.empty() ? "that makes " + node.outputs[0] : node.name;
  return fmt::format("{}: node '{}' ({})", file.path, which, node.op);
}

bool is_standard(const NodeEntry& node) {
  return node.domain.empty() || node.domain == "ai.onnx";
}

// Which nodes lead to what is wanted. Nodes stand in an order in which they can be executed.
std::vector<bool> needed_nodes(const File& file, const std::vector<std::string>& wanted) {
  std::set<std::string> names(wanted.begin(), wanted.end());
  std::vector<bool> needed(file.nodes.size(), false);
  for (size_t i = file.nodes.size(); i-- > 0;) {
    const NodeEntry& node = file.nodes[i];
    if (!std::ranges::any_of(node.outputs, [&](const std::string& name) { return names.contains(name); }))
      continue;
    needed[i] = true;
    names.insert(node.inputs.begin(), node.inputs.end());
  }
  return needed;
}

// Initializers that only Cos and Sin are made of (the frequencies of rotary positions) are no weights, and
// are folded.
std::set<std::string> folded_initializers(const File& file) {
  std::map<std::string, const NodeEntry*> makers;
  for (const NodeEntry& node : file.nodes) {
    for (const std::string& output : node.outputs) makers.emplace(output, &node);
  }
  std::set<std::string> folded, seen;
  std::vector<std::string> open;
  for (const NodeEntry& node : file.nodes) {
    if (node.op == "Cos" || node.op == "Sin") open.insert(open.end(), node.inputs.begin(), node.inputs.end());
  }
  while (!open.empty()) {
    const std::string name = open.back();
    open.pop_back();
    if (!seen.insert(name).second) continue;
    if (file.initializers.contains(name)) folded.insert(name);
    if (const auto maker = makers.find(name); maker != makers.end() && maker->second->op != "Shape")
      open.insert(open.end(), maker->second->inputs.begin(), maker->second->inputs.end());
  }
  return folded;
}

Value initializer(const StoredTensor& tensor, bool folded) {
  Value value;
  value.type = tensor.type;
  value.shape = tensor.shape;
  // Numbers without a dim are settings, like the exponent of Pow; everything else may be learned.
  if (tensor.type != Type::kF32 || tensor.shape.rank() == 0 || folded) return Emitter::known(tensor.decode());
  value.stored = &tensor;
  return value;
}

}  // namespace

const Value& Node::in(int input) const {
  if (!has(input)) throw_error("its input {} is missing", input);
  return inputs_[input];
}

const Attribute* Node::find(std::string_view name) const {
  const auto found = std::ranges::find(entry_.attributes, name, &Attribute::name);
  return found == entry_.attributes.end() ? nullptr : &*found;
}

int64_t Node::integer(std::string_view name, int64_t otherwise) const {
  const Attribute* attribute = find(name);
  return attribute && attribute->integer ? *attribute->integer : otherwise;
}
double Node::real(std::string_view name, double otherwise) const {
  const Attribute* attribute = find(name);
  return attribute && attribute->real ? *attribute->real : otherwise;
}
std::string Node::text(std::string_view name, std::string_view otherwise) const {
  const Attribute* attribute = find(name);
  return attribute ? attribute->text : std::string(otherwise);
}
std::vector<int64_t> Node::integers(std::string_view name) const {
  const Attribute* attribute = find(name);
  return attribute ? attribute->integers : std::vector<int64_t>();
}
std::vector<float> Node::reals(std::string_view name) const {
  const Attribute* attribute = find(name);
  return attribute ? attribute->reals : std::vector<float>();
}
const StoredTensor* Node::tensor(std::string_view name) const {
  const Attribute* attribute = find(name);
  return attribute ? attribute->tensor.get() : nullptr;
}

std::vector<int64_t> Node::known_integers(int input, std::string_view what) const {
  const Tensor& tensor = constant(input, what);
  if (is_real(tensor.type)) throw_error("its {} are {}; integers expected", what, type_name(tensor.type));
  return tensor.integers;
}

double Node::known_real(int input, std::string_view what) const {
  const Tensor& tensor = constant(input, what);
  if (tensor.elements() != 1) throw_error("its {} has {} elements; one expected", what, tensor.elements());
  return tensor.real(0);
}

std::vector<int64_t> Node::integers_until(int64_t since, std::string_view attribute, int input) const {
  if (opset < since) return integers(attribute);
  return has(input) ? known_integers(input, attribute) : std::vector<int64_t>();
}

int Node::dim(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) throw_error("axis {} of a tensor of {} dims does not exist", axis, rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::map<std::string, Value> import_graph(const File& file, Emitter& emitter,
                                          const std::map<std::string, Value>& inputs,
                                          const std::vector<std::string>& wanted) {
  if (file.opset != 0 && (file.opset < kOldestOpset || file.opset > kNewestOpset))
    throw_error("{}: it is written for opset {}; {} to {} are read. Export it again with opset 17", file.path,
                file.opset, kOldestOpset, kNewestOpset);
  std::map<std::string, Value> values = inputs;
  const std::set<std::string> folded = folded_initializers(file);
  const std::vector<bool> needed = needed_nodes(file, wanted);
  const auto value_of = [&](const std::string& name) -> Value {
    if (name.empty()) return {};
    if (const auto found = values.find(name); found != values.end()) return found->second;
    const auto stored = file.initializers.find(name);
    if (stored == file.initializers.end())
      throw_error("'{}' is used before any node makes it, and is no input or initializer", name);
    return values[name] = initializer(stored->second, folded.contains(name));
  };
  for (size_t i = 0; i < file.nodes.size(); ++i) {
    const NodeEntry& entry = file.nodes[i];
    if (!needed[i]) continue;
    const auto lowering = lowerings().find(entry.op);
    if (lowering == lowerings().end() || !is_standard(entry))
      throw Refusal(is_standard(entry) ? entry.op : entry.domain + "." + entry.op,
                    fmt::format("{}: there is no such op in Trireme; docs/onnx.md lists those that can be "
                                "imported. Export the model without it",
                                described(file, entry)));
    if (file.opset == 0)
      throw Refusal(entry.op,
                    fmt::format("{}: the file does not say which opset it is for", described(file, entry)));
    const std::string scope = scope_of_node(entry);
    try {
      std::vector<Value> given;
      for (const std::string& name : entry.inputs) given.push_back(value_of(name));
      std::optional<Builder::Scope> open;
      if (!scope.empty()) open.emplace(emitter.builder(), scope);
      Node node(entry, std::move(given), file.opset, emitter);
      std::vector<Value> results = lowering->second(node);
      for (size_t r = 0; r < entry.outputs.size(); ++r) {
        if (entry.outputs[r].empty()) continue;
        if (r >= results.size() || results[r].type == Type::kNone) continue;  // refused if anybody reads it
        if (!values.emplace(entry.outputs[r], results[r]).second)
          throw_error("its result '{}' exists already", entry.outputs[r]);
      }
    } catch (const ConstantNeeded& error) {
      throw ConstantNeeded(error.input, fmt::format("{}: {}", described(file, entry), error.what()));
    } catch (const Error& error) {
      throw Refusal(entry.op, fmt::format("{}: {}", described(file, entry), error.what()));
    }
  }
  for (const std::string& name : wanted) {
    if (!values.contains(name) && !file.initializers.contains(name)) {
      for (const NodeEntry& node : file.nodes) {
        if (std::ranges::find(node.outputs, name) != node.outputs.end())
          throw Refusal(node.op,
                        fmt::format("{}: its result '{}' is not computed here", described(file, node), name));
      }
      throw_error("{}: no node makes its output '{}'", file.path, name);
    }
    value_of(name);
  }
  return values;
}

std::vector<std::string> imported_ops() {
  std::vector<std::string> names;
  for (const auto& [name, lowering] : lowerings()) names.emplace_back(name);
  return names;
}

}  // namespace trireme::onnx
