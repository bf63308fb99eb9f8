// The graph becomes a list of items, each a node that stays as it is or the nodes of a map. Two maps are
// joined where there is a place in the list for both: behind everything that they read and before everyone
// who reads what they make. A map may hold a copy of a node whose result others get from elsewhere.
#include "trireme/passes/join_maps.h"

#include <algorithm>
#include <set>

#include "trireme/ir/map_code.h"
#include "trireme/ir/scope.h"
#include "trireme/ir/verify.h"
#include "trireme/passes/prune.h"

namespace trireme {
namespace {

constexpr size_t kMostInstructions = 24;

struct Item {
  bool is_map = false;
  std::vector<Node> nodes;        // one, or those of a map in order
  std::vector<ValueId> provided;  // what others get from here
};

bool contains(const std::vector<ValueId>& values, ValueId value) {
  return std::ranges::find(values, value) != values.end();
}

bool makes(const std::vector<Node>& nodes, ValueId value) {
  return std::ranges::any_of(nodes, [&](const Node& node) { return contains(node.outputs, value); });
}

// What the nodes read and do not make themselves, in the order in which they read it.
std::vector<ValueId> read_by(const std::vector<Node>& nodes) {
  std::vector<ValueId> result;
  for (const Node& node : nodes) {
    for (ValueId input : node.inputs) {
      if (!makes(nodes, input) && !contains(result, input)) result.push_back(input);
    }
  }
  return result;
}

// Those of the nodes from which the values are made, in order.
std::vector<Node> makers_of(const std::vector<Node>& nodes, const std::vector<ValueId>& values) {
  std::set<ValueId> wanted(values.begin(), values.end());
  std::vector<Node> result;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    if (!wanted.contains(node->outputs[0])) continue;
    wanted.insert(node->inputs.begin(), node->inputs.end());
    result.insert(result.begin(), *node);
  }
  return result;
}

// `more` behind `nodes`, each node once.
std::vector<Node> joined(std::vector<Node> nodes, const std::vector<Node>& more) {
  for (const Node& node : more) {
    if (!makes(nodes, node.outputs[0])) nodes.push_back(node);
  }
  return nodes;
}

class MapJoiner {
 public:
  MapJoiner(const Graph& graph, const OpTable& ops, const GainQuery& gains)
      : graph_(graph), map_(ops.at("map")), gains_(gains) {
    for (const Update& update : graph.updates) kept_.insert(update.value);
    for (const Output& output : graph.outputs) kept_.insert(output.value);
    for (const Node& node : graph.nodes) items_.push_back({is_element_wise(node), {node}, node.outputs});
    note_places();
  }

  Graph run() {
    if (std::ranges::none_of(items_, &Item::is_map)) return graph_;
    while (join_some() || compute_some_again()) continue;
    make_stash_again();
    return result();
  }

 private:
  const TensorType& type_of(const Item& item) const { return graph_.type(item.nodes.front().outputs[0]); }
  bool is_full(const Item& item, ValueId value) const { return graph_.type(value) == type_of(item); }

  // Every input has the indices of the result, or the last of them, and nothing is summed or kept whole.
  bool is_element_wise(const Node& node) const {
    if (node.outputs.size() != 1 || node.inputs.empty() || node.op->collective ||
        node.op->memory == OpRecord::Memory::kShared)
      return false;
    const TensorType& type = graph_.type(node.outputs[0]);
    const std::vector<TensorType> inputs = graph_.types_of(node.inputs);
    for (const TensorType& input : inputs) {
      if (input.dtype != type.dtype) return false;
    }
    if (!is_float(type.dtype) || inputs[0] != type) return false;
    for (const auto& [name, value] : node.attrs.items()) {
      if (!std::holds_alternative<double>(value) && !std::holds_alternative<int64_t>(value)) return false;
    }
    const IndexRule rule = node.op->index({node.op->name, inputs, node.attrs});
    const auto& all = rule.outputs[0];
    for (const auto& operand : rule.inputs) {
      if (operand.size() > all.size() || !std::equal(operand.rbegin(), operand.rend(), all.rbegin()))
        return false;
    }
    for (size_t index = 0; index < rule.indices.size(); ++index) {
      if (!rule.may_split(static_cast<int>(index)) || IndexRule::dim_of(all, static_cast<int>(index)) < 0)
        return false;
    }
    return gains_(graph_, as_node({true, {node}, node.outputs}));
  }

  Node as_node(const Item& item) const {
    const std::vector<ValueId> inputs = read_by(item.nodes);
    MapCode code{.inputs = static_cast<int>(inputs.size())};
    std::vector<ValueId> numbered = inputs;
    for (const Node& node : item.nodes) {
      MapCode::Instruction& one =
          code.instructions.emplace_back(MapCode::Instruction{std::string(node.op->name), {}, node.attrs});
      for (ValueId input : node.inputs)
        one.operands.push_back(static_cast<int>(std::ranges::find(numbered, input) - numbered.begin()));
      numbered.push_back(node.outputs[0]);
    }
    for (ValueId value : item.provided)
      code.results.push_back(static_cast<int>(std::ranges::find(numbered, value) - numbered.begin()));
    return {&map_, inputs, item.provided, code.attrs()};
  }

  void note_places() {
    provider_.assign(graph_.values.size(), -1);
    readers_.assign(graph_.values.size(), {});
    for (int place = 0; place < static_cast<int>(items_.size()); ++place) {
      for (ValueId value : items_[place].provided) provider_[value] = place;
      for (ValueId value : read_by(items_[place].nodes)) readers_[value].push_back(place);
    }
  }
  // The item that provides a value, where that is a map of whole tensors like this item's; or −1.
  int map_providing(const Item& item, ValueId value) const {
    const int place = provider_[value];
    return place >= 0 && items_[place].is_map && is_full(item, value) && is_full(items_[place], value) ? place
                                                                                                       : -1;
  }
  int behind_inputs(const std::vector<Node>& nodes) const {
    int place = 0;
    for (ValueId value : read_by(nodes)) place = std::max(place, provider_[value] + 1);
    return place;
  }
  bool fits(const Item& item) const {
    return item.nodes.size() <= kMostInstructions && item.provided.size() <= kMostMapResults &&
           read_by(item.nodes).size() <= kMostMapInputs && gains_(graph_, as_node(item));
  }

  // Item `a` goes into item `b` behind it, if there is a place for both.
  bool join(int a, int b) {
    Item both{true, joined(items_[a].nodes, items_[b].nodes), {}};
    int before = static_cast<int>(items_.size());
    for (int from : {a, b}) {
      for (ValueId value : items_[from].provided) {
        bool elsewhere = kept_.contains(value);
        for (int reader : readers_[value]) {
          if (reader == a || reader == b) continue;
          elsewhere = true;
          before = std::min(before, reader);
        }
        if (elsewhere) both.provided.push_back(value);
      }
    }
    const int behind = behind_inputs(both.nodes);
    if (behind > before || both.provided.empty() || !fits(both)) return false;
    const int place = std::clamp(b, behind, before);
    items_.insert(items_.begin() + place, std::move(both));
    for (int old : {b, a}) items_.erase(items_.begin() + old + (old >= place ? 1 : 0));
    note_places();
    return true;
  }

  // With a map that makes what this one reads, or reads what it reads.
  bool join_some() {
    for (int b = 0; b < static_cast<int>(items_.size()); ++b) {
      if (!items_[b].is_map) continue;
      for (ValueId value : read_by(items_[b].nodes)) {
        if (!is_full(items_[b], value)) continue;
        if (const int a = map_providing(items_[b], value); a >= 0 && join(a, b)) return true;
        for (int a : std::vector<int>(readers_[value])) {
          if (a < b && items_[a].is_map && is_full(items_[a], value) && join(a, b)) return true;
        }
      }
    }
    return false;
  }

  // The nodes by which `item` can make a value of another map again without reading more; empty: it can not.
  std::vector<Node> nodes_again(const Item& item, ValueId value, int provider) const {
    std::vector<Node> again = makers_of(items_[provider].nodes, {value});
    const std::vector<ValueId> known = read_by(item.nodes);
    for (ValueId input : read_by(again)) {
      if (!contains(known, input) && !makes(item.nodes, input)) return {};
    }
    return again;
  }

  // What a map reads of another one and can as well make itself.
  bool compute_some_again() {
    for (int b = 0; b < static_cast<int>(items_.size()); ++b) {
      if (!items_[b].is_map) continue;
      for (ValueId value : read_by(items_[b].nodes)) {
        const int a = map_providing(items_[b], value);
        if (a < 0) continue;
        const std::vector<Node> again = nodes_again(items_[b], value, a);
        Item more{true, joined(again, items_[b].nodes), items_[b].provided};
        if (again.empty() || !fits(more)) continue;
        items_[b] = std::move(more);
        drop_unread(a, value, b);
        note_places();
        return true;
      }
    }
    return false;
  }

  // Nobody but `reader`, which makes it itself now, read the value from item `a`.
  void drop_unread(int a, ValueId value, int reader) {
    if (kept_.contains(value) || readers_[value] != std::vector<int>{reader}) return;
    Item& item = items_[a];
    std::erase(item.provided, value);
    if (item.provided.empty())
      items_.erase(items_.begin() + a);
    else
      item.nodes = makers_of(item.nodes, item.provided);
  }

  // A value of the forward part that other nodes than maps read in the backward part: a map there that has
  // all it is made of gives it out for them, so that it is not kept in between. Costs one more write.
  void make_stash_again() {
    for (int b = 0; b < static_cast<int>(items_.size()); ++b) {
      if (!items_[b].is_map || !is_backward(items_[b].provided[0])) continue;
      for (int a = 0; a < b; ++a) {
        if (!items_[a].is_map || is_backward(items_[a].provided[0])) continue;
        for (ValueId value : std::vector<ValueId>(items_[a].provided)) {
          if (give_out_again(a, b, value)) {
            b = -1;  // places changed
            break;
          }
        }
        if (b < 0) break;
      }
    }
  }
  bool is_backward(ValueId value) const {
    return has_part(scope_of(graph_.values[value].name), kGradientPart);
  }
  bool give_out_again(int a, int b, ValueId value) {
    if (kept_.contains(value) || !is_full(items_[b], value)) return false;
    const int place = behind_inputs(items_[b].nodes);
    std::vector<int> later = readers_[value];
    std::erase_if(later, [&](int reader) { return reader < place || reader == b; });
    if (later.empty()) return false;
    const bool made = makes(items_[b].nodes, value);
    const std::vector<Node> again = made ? std::vector<Node>() : nodes_again(items_[b], value, a);
    if (!made && again.empty()) return false;
    Item more{true, joined(again, items_[b].nodes), items_[b].provided};
    more.provided.push_back(value);
    if (!fits(more)) return false;
    const ValueId anew = static_cast<ValueId>(graph_.values.size());
    Value copy = graph_.values[value];
    do copy.name = name_again(copy.name);
    while (graph_.find(copy.name) != kNoValue);
    graph_.values.push_back(std::move(copy));
    const auto rename = [&](std::vector<ValueId>& values) { std::ranges::replace(values, value, anew); };
    for (Node& node : more.nodes) {
      rename(node.inputs);
      rename(node.outputs);
    }
    rename(more.provided);
    for (int reader : later) {
      for (Node& node : items_[reader].nodes) rename(node.inputs);
    }
    items_.erase(items_.begin() + b);
    items_.insert(items_.begin() + place, std::move(more));
    note_places();
    return true;
  }

  Graph result() const {
    Graph graph = graph_;
    graph.nodes.clear();
    for (const Item& item : items_)
      graph.nodes.push_back(item.nodes.size() > 1 ? as_node(item) : item.nodes[0]);
    return without_nodes(graph, std::vector<bool>(graph.nodes.size(), false));
  }

  Graph graph_;
  const OpRecord& map_;
  const GainQuery& gains_;
  std::vector<Item> items_;
  std::set<ValueId> kept_;     // outputs and what states become
  std::vector<int> provider_;  // of each value: the place of its item; −1: an input or a state
  std::vector<std::vector<int>> readers_;
};

}  // namespace

Graph join_maps(const Graph& graph, const OpTable& ops, const GainQuery& gains) {
  Graph result = MapJoiner(graph, ops, gains).run();
  debug_verify(result);
  return result;
}

}  // namespace trireme
