// Walks the nodes in order and keeps, of each value of the old graph, the one or two values of the new graph
// that hold it: as it lay, and with channels last.
#include "trireme/passes/channels_last.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/ir/channels_last.h"
#include "trireme/ir/graph_copy.h"
#include "trireme/ir/verify.h"

namespace trireme {
namespace {

bool may_turn(const TensorType& type) {
  return type.shape.rank() == 3 || type.shape.rank() == 4;
}
TensorType turned_type(TensorType type) {
  if (may_turn(type)) type.shape = channels_last(type.shape);
  return type;
}

// Whether the op does the same at each [c y x], so that all operands may be turned: they end with the same
// three indices, in front of which some have one more. A sum over the images of a batch is such an op, and so
// is the addition of a bias that was spread over the pixels.
bool is_pointwise(const Graph& graph, const Node& node) {
  if (node.op->collective || node.op->memory == OpRecord::Memory::kShared) return false;
  const std::vector<TensorType> inputs = graph.types_of(node.inputs), outputs = graph.types_of(node.outputs);
  const IndexRule rule = node.op->index({node.op->name, inputs, node.attrs});
  const IndexRule::Operand& first = rule.inputs.at(0);
  if (first.size() < 3) return false;
  const auto ends_alike = [&](const IndexRule::Operand& operand) {
    return (operand.size() == 3 || operand.size() == 4) &&
           std::equal(operand.end() - 3, operand.end(), first.end() - 3);
  };
  if (!std::ranges::all_of(rule.inputs, ends_alike) || !std::ranges::all_of(rule.outputs, ends_alike))
    return false;
  if (std::ranges::any_of(rule.indices,
                          [](const Index& index) { return index.split == Index::Split::kWhole; }))
    return false;
  // Attributes that speak of extents would have to be turned too.
  std::vector<TensorType> turned_inputs, turned_outputs;
  std::ranges::transform(inputs, std::back_inserter(turned_inputs), turned_type);
  std::ranges::transform(outputs, std::back_inserter(turned_outputs), turned_type);
  try {
    return infer_types(*node.op, turned_inputs, node.attrs) == turned_outputs;
  } catch (const Error&) {
    return false;
  }
}

class Turner {
 public:
  Turner(const Graph& graph, const OpTable& ops, const GainQuery& gains)
      : graph_(graph), ops_(ops), gains_(gains), copy_(graph, ops, graph.name), held_(graph.values.size()) {}

  Graph run() {
    copy_.declare_all();
    for (const Node& node : graph_.nodes) {
      if (turns(node))
        turn(node);
      else if (reads_last(node) && is_pointwise(graph_, node))
        follow(node);
      else
        keep(node);
    }
    copy_.finish([&](ValueId value) { return first(value); });
    return copy_.take();
  }

 private:
  enum class Order { kFirst, kLast };
  struct Held {
    ValueId last = kNoValue;  // with channels last; as it lay, it is in `copy_`
    Order made = Order::kFirst;
  };

  bool is_image(ValueId value) const { return may_turn(graph_.type(value)); }
  const OpRecord& form(const Node& node) const { return ops_.at(node.op->channels_last.op); }

  // Asked with the types that the operands would have.
  bool turns(const Node& node) const {
    if (node.op->channels_last.op.empty() || !is_image(node.inputs[0])) return false;
    if (node.attrs.integer("groups", 1) != 1) return false;
    if (node.op->channels_last.when == OpRecord::ChannelsLast::When::kFollowing && !reads_last(node))
      return false;
    Graph alone;
    Node asked{&form(node), {}, {}, node.attrs};
    const auto add = [&](const std::vector<ValueId>& from, std::vector<ValueId>& to) {
      for (ValueId value : from) {
        to.push_back(static_cast<ValueId>(alone.values.size()));
        alone.values.push_back({.name = "", .type = turned_type(graph_.type(value))});
      }
    };
    add(node.inputs, asked.inputs);
    add(node.outputs, asked.outputs);
    return gains_(alone, asked);
  }
  bool reads_last(const Node& node) const {
    return std::ranges::any_of(node.inputs, [&](ValueId value) { return held_[value].made == Order::kLast; });
  }

  void turn(const Node& node) {
    const std::vector<ValueId> made = copy(node, form(node), Order::kLast);
    for (size_t i = 0; i < made.size(); ++i) {
      const ValueId output = node.outputs[i];
      if (!is_image(output)) {
        copy_.set(output, made[i]);
      } else if (node.op->channels_last.makes == OpRecord::ChannelsLast::Makes::kWeights) {
        held_[output].last = made[i];
        first(output);  // whoever reads the gradient of a weight wants it as the weight lies
      } else {
        held_[output] = {made[i], Order::kLast};
      }
    }
  }
  void follow(const Node& node) {
    const std::vector<ValueId> made = copy(node, *node.op, Order::kLast);
    for (size_t i = 0; i < made.size(); ++i) held_[node.outputs[i]] = {made[i], Order::kLast};
  }
  void keep(const Node& node) {
    const std::vector<ValueId> made = copy(node, *node.op, Order::kFirst);
    for (size_t i = 0; i < made.size(); ++i) copy_.set(node.outputs[i], made[i]);
  }

  std::vector<ValueId> copy(const Node& node, const OpRecord& op, Order order) {
    std::vector<ValueId> inputs;
    for (ValueId value : node.inputs)
      inputs.push_back(order == Order::kLast && is_image(value) ? last(value) : first(value));
    Node same = node;
    same.op = &op;
    return copy_.builder().copy(graph_, same, std::move(inputs), node.attrs);
  }

  ValueId first(ValueId value) {
    return copy_.has(value) ? copy_[value]
                            : copy_.set(value, turned(value, held_[value].last, Order::kFirst));
  }
  ValueId last(ValueId value) {
    Held& held = held_[value];
    if (held.last == kNoValue) held.last = turned(value, copy_[value], Order::kLast);
    return held.last;
  }
  ValueId turned(ValueId value, ValueId from, Order to) {
    const Shape& first = graph_.type(value).shape;
    const int channels = first.rank() - 3;  // the dim
    const std::string name =
        graph_.values[value].name + (to == Order::kFirst ? ".channels_first" : ".channels_last");
    // Nothing moves where there is one channel, or one pixel.
    if (first[channels] == 1 || first[channels + 1] * first[channels + 2] == 1) {
      const Shape shape = to == Order::kFirst ? first : channels_last(first);
      const std::vector<int64_t> extents(shape.begin(), shape.end());
      return copy_.builder().op("reshape", {from}, {{"shape", extents}}, name);
    }
    const std::vector<int64_t> perm =
        to == Order::kFirst ? perm_to_channels_first(first.rank()) : perm_to_channels_last(first.rank());
    return copy_.builder().op("transpose", {from}, {{"perm", perm}}, name);
  }

  const Graph& graph_;
  const OpTable& ops_;
  const GainQuery& gains_;
  GraphCopy copy_;
  std::vector<Held> held_;
};

}  // namespace

Graph with_channels_last(const Graph& graph, const OpTable& ops, const GainQuery& gains) {
  Graph result = Turner(graph, ops, gains).run();
  debug_verify(result);
  return result;
}

}  // namespace trireme
