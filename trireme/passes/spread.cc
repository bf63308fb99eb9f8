// Goes through the nodes in order. For each one the cuts that its inputs suggest are tried, all combinations
// over the axes, and the cheapest is taken: bytes that inputs must move to lie so, bytes that results will
// have to, and work that several ranks would do alike.
#include "trireme/passes/spread.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "trireme/base/error.h"

namespace trireme {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// What work costs, in bytes sent: a core does some ten FLOPs, or touches a few bytes of memory, while one
// byte travels.
constexpr double kBytesPerFlop = 0.05, kBytesPerByteTouched = 0.2;
// Of moving a state away from how the plan has it: activations come to the weights, not the other way.
constexpr double kStateFactor = 1e6;

// What one axis may do at one node.
struct AxisChoice {
  IndexCut cut;
  bool passes_sums = false;
  friend bool operator==(const AxisChoice&, const AxisChoice&) = default;
};

OperandLayouts layouts_by(const IndexRule& rule, const Graph& graph, const Node& node,
                          const NodeSpread& spread, const Mesh& mesh) {
  OperandLayouts layouts = layouts_of(rule, spread.way, mesh);
  for (size_t a = 0; a < spread.way.size(); ++a) {
    if (!spread.passes_sums[a]) continue;
    for (Layout& layout : layouts.inputs) layout[a] = Placement::sum();
    for (Layout& layout : layouts.outputs) layout[a] = Placement::sum();
  }
  for (size_t i = 0; i < node.inputs.size(); ++i)
    layouts.inputs[i] = normal_form(layouts.inputs[i], graph.type(node.inputs[i]).shape, mesh);
  for (size_t o = 0; o < node.outputs.size(); ++o)
    layouts.outputs[o] = normal_form(layouts.outputs[o], graph.type(node.outputs[o]).shape, mesh);
  return layouts;
}

struct Decision {
  NodeSpread spread;
  OperandLayouts layouts;
};

class Search {
 public:
  Search(const Graph& graph, const Mesh& mesh, const Pins& pins, const PinnedValues& pinned,
         const Alike* alike)
      : graph_(graph), mesh_(mesh), pins_(pins), pinned_(pinned) {
    if (!alike) return;
    for (size_t n = 0; n < alike->graph.nodes.size(); ++n)
      known_[alike->graph.values[alike->graph.nodes[n].outputs[0]].name] = &alike->spread.nodes[n];
  }

  Spread run() {
    for (const Update& update : graph_.updates) renewed_[update.value].push_back(update.state);
    find_sums_that_stay();
    versions_.resize(graph_.values.size());
    result_.values.assign(graph_.values.size(), replicated(mesh_));
    for (size_t v = 0; v < graph_.values.size(); ++v) start_value(static_cast<ValueId>(v));
    for (const Node& node : graph_.nodes) {
      const auto known = known_.find(graph_.values[node.outputs[0]].name);
      if (known == known_.end())
        take(node, decision(node));
      else
        take(node, {*known->second, operand_layouts(graph_, node, *known->second, mesh_)});
    }
    return std::move(result_);
  }

 private:
  // Which values may stay sums of addends along which axes, because all that is done with them is linear and
  // ends where the plan wants addends: gradients on their way to where they are accumulated.
  void find_sums_that_stay() {
    const size_t axes = mesh_.axes().size();
    sums_stay_.assign(graph_.values.size(), std::vector<bool>(axes, true));
    std::vector<bool> read(graph_.values.size());
    const auto restrict_to = [&](ValueId value, auto stays) {
      read[value] = true;
      for (size_t a = 0; a < axes; ++a) sums_stay_[value][a] = sums_stay_[value][a] && stays(a);
    };
    const auto is_sum = [](const Layout& layout) {
      return [&layout](size_t a) { return layout[a].kind == Placement::Kind::kSum; };
    };
    for (const Update& update : graph_.updates) {
      if (pinned_.layout(update.value)) continue;  // below
      const Layout rest = pinned_.state(update.state).rest;
      // A split state owes one reduce_scatter at the end, however many addends came together on the way.
      restrict_to(update.value, [&](size_t a) {
        return rest[a].kind == Placement::Kind::kSum || rest[a].kind == Placement::Kind::kSplit;
      });
    }
    for (const Output& output : graph_.outputs) {
      const auto pinned = pins_.outputs.find(output.name);
      restrict_to(output.value, is_sum(pinned == pins_.outputs.end() ? replicated(mesh_) : pinned->second));
    }
    for (size_t n = graph_.nodes.size(); n-- > 0;) {
      const Node& node = graph_.nodes[n];
      for (ValueId result : node.outputs) {
        if (const Layout* pinned = pinned_.layout(result)) restrict_to(result, is_sum(*pinned));
        if (!read[result]) restrict_to(result, [](size_t) { return false; });
      }
      const bool linear =
          node.op->linear && node.op->linear({node.op->name, graph_.types_of(node.inputs), node.attrs});
      for (ValueId input : node.inputs) {
        restrict_to(input, [&](size_t a) {
          return linear && std::ranges::all_of(node.outputs,
                                               [&](ValueId result) { return bool(sums_stay_[result][a]); });
        });
      }
    }
  }

  void start_value(ValueId id) {
    const Value& value = graph_.values[id];
    if (value.kind == Value::Kind::kState) {
      const StateLayout& layout = pinned_.state(id);
      result_.values[id] = layout.rest;
      versions_[id] = {layout.use};
    } else if (value.kind == Value::Kind::kInput) {
      const Layout* pinned = pinned_.layout(id);
      result_.values[id] = pinned ? *pinned : replicated(mesh_);
      versions_[id] = {pinned_.is_like_state(id) ? pinned_.state(id).use : result_.values[id]};
    }
  }

  // The one cut that ops with heads have along an axis of by_heads.
  std::optional<IndexCut> heads_cut(const Node& node, const IndexRule& rule, size_t axis) const {
    if (pins_.by_heads.empty() || !pins_.by_heads[axis] || node.op->heads.empty()) return std::nullopt;
    const auto heads = std::ranges::find(rule.indices, node.op->heads, &Index::name);
    return IndexCut{.index = static_cast<int>(heads - rule.indices.begin())};
  }

  // Where a result goes as soon as it is made. Of an op that is split by heads: back, but what has its heads
  // in that dim stays. Of one that could pass parts round a ring: sums to where parts would come to rest.
  std::optional<Layout> home_of(const Node& node, size_t output, const Layout& made) const {
    const ValueId id = node.outputs[output];
    Layout home = made;
    const bool returns =
        std::ranges::find(node.op->ring.returns, static_cast<int>(output)) != node.op->ring.returns.end();
    for (size_t a = 0; a < home.size(); ++a) {
      if (!pins_.by_heads.empty() && pins_.by_heads[a] && !node.op->heads.empty()) home[a] = pins_.scatter[a];
      if (returns && home[a].kind == Placement::Kind::kSum) {
        if (const Placement split = put_together(id, a); split.kind == Placement::Kind::kSplit)
          home[a] = split;
      }
    }
    home = normal_form(home, graph_.type(id).shape, mesh_);
    return home == made ? std::nullopt : std::optional(home);
  }

  // All that a choice depends on is the op, its types and attributes, where its inputs are to be had, and
  // what is wanted of its results. Where that was so before (blocks of a model repeat), the choice was made.
  struct Decided {
    const Node& node;
    std::vector<std::vector<Layout>> versions;  // of its inputs at the time
    Decision decision;
  };
  Decision decision(const Node& node) {
    const size_t hash = hash_of(node);
    const auto [first, last] = decided_.equal_range(hash);
    const auto same =
        std::find_if(first, last, [&](const auto& one) { return decides_as(one.second, node); });
    if (same != last) return same->second.decision;
    Decision made{choose(node), {}};
    made.layouts = operand_layouts(graph_, node, made.spread, mesh_);
    Decided& kept = decided_.emplace(hash, Decided{node, {}, made})->second;
    for (ValueId input : node.inputs) kept.versions.push_back(versions_[input]);
    return made;
  }
  size_t hash_of(const Node& node) const {
    uint64_t hash = reinterpret_cast<uintptr_t>(node.op);
    const auto add = [&](uint64_t number) {
      hash = (hash ^ number) * 0x9e3779b97f4a7c15U, hash ^= hash >> 32;
    };
    for (ValueId input : node.inputs) {
      add(versions_[input].size());
      for (int64_t extent : graph_.type(input).shape) add(static_cast<uint64_t>(extent));
    }
    return hash;
  }
  bool decides_as(const Decided& before, const Node& node) const {
    if (before.node.op != node.op || before.node.attrs != node.attrs ||
        before.node.inputs.size() != node.inputs.size() || before.node.outputs.size() != node.outputs.size())
      return false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId one = before.node.inputs[i], other = node.inputs[i];
      if (graph_.type(one) != graph_.type(other) || before.versions[i] != versions_[other] ||
          pinned_.is_like_state(one) != pinned_.is_like_state(other))
        return false;
    }
    return std::ranges::equal(before.node.outputs, node.outputs,
                              [&](ValueId one, ValueId other) { return are_wanted_alike(one, other); });
  }
  bool are_wanted_alike(ValueId one, ValueId other) const {
    const Layout *pin = pinned_.layout(one), *other_pin = pinned_.layout(other);
    if (graph_.type(one) != graph_.type(other) ||
        (pin ? !other_pin || *pin != *other_pin : other_pin != nullptr))
      return false;
    if (sums_stay_[one] != sums_stay_[other]) return false;
    const auto renewed = renewed_.find(one), other_renewed = renewed_.find(other);
    if (renewed == renewed_.end() || other_renewed == renewed_.end()) return renewed == other_renewed;
    return std::ranges::equal(
        renewed->second, other_renewed->second, {},
        [&](ValueId state) -> const Layout& { return pinned_.state(state).rest; },
        [&](ValueId state) -> const Layout& { return pinned_.state(state).rest; });
  }

  NodeSpread choose(const Node& node) const {
    const IndexRule rule = rule_of(graph_, node);
    std::vector<NodeSpread> candidates = {
        {Way(mesh_.axes().size()), std::vector<bool>(mesh_.axes().size()), {}}};
    for (size_t a = 0; a < mesh_.axes().size(); ++a) {
      if (const auto heads = heads_cut(node, rule, a)) {
        for (NodeSpread& candidate : candidates) candidate.way[a] = *heads;
        continue;
      }
      const size_t before = candidates.size();
      for (const AxisChoice& choice : choices(node, rule, static_cast<int>(a))) {
        for (size_t c = 0; c < before; ++c) {
          candidates.push_back(candidates[c]);
          candidates.back().way[a] = choice.cut;
          candidates.back().passes_sums[a] = choice.passes_sums;
        }
      }
    }
    const Cost work = trireme::cost_of(graph_, node);
    double best_cost = kNever;
    NodeSpread best;
    for (NodeSpread& candidate : candidates) {
      if (!is_legal(rule, candidate.way, mesh_) || !takes_parts(node, rule, candidate.way)) continue;
      const OperandLayouts layouts = layouts_by(rule, graph_, node, candidate, mesh_);
      const double cost = cost_of_candidate(node, work, candidate, layouts);
      // Where it costs the same, what is added up later may be added up once for several.
      const bool later = std::ranges::find(candidate.passes_sums, true) != candidate.passes_sums.end();
      if (cost > best_cost || (cost == best_cost && !later)) continue;
      best_cost = cost;
      best = candidate;
      best.inputs = layouts.inputs;
    }
    if (best_cost == kNever) refuse(node);
    return best;
  }

  // Pieces of an index that an op's attributes speak of are no part, except where it takes those of one
  // index.
  bool takes_parts(const Node& node, const IndexRule& rule, const Way& way) const {
    using enum OpRecord::Localizes;
    if (!node.op->localize || node.op->localizes == kExtents) return true;
    int in_pieces = -1;
    for (const IndexCut& cut : way) {
      if (cut.blocks == 1 || cut.index == in_pieces) continue;
      if (!tells_position(node, rule, cut.index)) continue;
      if (node.op->localizes != kPieces || in_pieces >= 0) return false;
      in_pieces = cut.index;
    }
    if (in_pieces < 0 || std::ranges::count(way, in_pieces, &IndexCut::index) == 1) return true;
    for (int rank = 0; rank < mesh_.ranks(); ++rank) {  // where several axes cut it, pieces may be unlike
      if (!stride_of(pieces_under(rule, way, in_pieces, mesh_, rank))) return false;
    }
    return true;
  }

  // What the inputs' layouts, and pinned results, suggest along one axis, beyond doing nothing.
  std::vector<AxisChoice> choices(const Node& node, const IndexRule& rule, int axis) const {
    std::vector<AxisChoice> result;
    const int ways = mesh_.axes()[axis].size;
    const auto suggest = [&](const std::optional<IndexCut>& cut) {
      if (cut && rule.may_split(cut->index) && std::ranges::find(result, AxisChoice{*cut}) == result.end())
        result.push_back({*cut});
    };
    // Scalars become addends at no cost, so that the squares of many gradients are added up over ranks once.
    bool sums = true, any_sum = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      bool is_sum = false;
      for (const Layout& version : versions_[node.inputs[i]]) {
        suggest(cut_from(rule, rule.inputs[i], version[axis], ways));
        is_sum |= version[axis].kind == Placement::Kind::kSum;
      }
      any_sum |= is_sum;
      sums &= is_sum || graph_.type(node.inputs[i]).shape.rank() == 0;
    }
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      if (const Layout* pinned = pinned_.layout(node.outputs[o]))
        suggest(cut_from(rule, rule.outputs[o], (*pinned)[axis], ways));
    }
    // Last: of ways that cost the same, the first is taken, and another input's layout is a better guide.
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      for (const Layout& version : versions_[node.inputs[i]]) {
        if (version[axis].kind == Placement::Kind::kSum)
          suggest(cut_from(rule, rule.inputs[i], put_together(node.inputs[i], axis), ways));
      }
    }
    if (sums && any_sum && node.op->linear &&
        node.op->linear({node.op->name, graph_.types_of(node.inputs), node.attrs}))
      result.push_back({{}, true});
    return result;
  }

  // How a sum over the axis is best put together. Only activations have the dim that it may be scattered
  // along as an outer one; weights and statistics are left alone.
  Placement put_together(ValueId value, size_t axis) const {
    if (pins_.scatter.empty() || pins_.scatter[axis].kind != Placement::Kind::kSplit) return {};
    const Placement& split = pins_.scatter[axis];
    const Shape& shape = graph_.type(value).shape;
    if (shape.rank() < split.dim + 2 || shape[split.dim] % split.blocks != 0 ||
        shape[split.dim] / split.blocks < mesh_.axes()[axis].size)
      return {};
    return split;
  }

  double cost_of_candidate(const Node& node, const Cost& work, const NodeSpread& candidate,
                           const OperandLayouts& layouts) const {
    double cost = 0;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      double cheapest = kNever;
      for (const Layout& version : versions_[id])
        cheapest = std::min(cheapest, bytes_between(graph_.type(id), version, layouts.inputs[i]));
      cost += cheapest * (pinned_.is_like_state(id) ? kStateFactor : 1);
    }
    for (size_t o = 0; o < node.outputs.size(); ++o) cost += result_cost(node.outputs[o], layouts.outputs[o]);
    double ranks_at_work = 1;
    for (size_t a = 0; a < candidate.way.size(); ++a) {
      if (candidate.way[a].index >= 0) ranks_at_work *= mesh_.axes()[a].size;
    }
    return cost + (work.flops * kBytesPerFlop + work.bytes * kBytesPerByteTouched) / ranks_at_work;
  }

  // What a result will cost: to become what a state is at rest, to be pinned, or to be added up where nobody
  // takes addends.
  double result_cost(ValueId id, const Layout& layout) const {
    const Value& value = graph_.values[id];
    if (const Layout* pinned = pinned_.layout(id)) return bytes_between(value.type, layout, *pinned);
    if (const auto renewed = renewed_.find(id); renewed != renewed_.end()) {
      double cost = 0;
      for (ValueId state : renewed->second)
        cost += bytes_between(value.type, layout, pinned_.state(state).rest);
      return cost;
    }
    Layout added = layout;
    for (size_t a = 0; a < layout.size(); ++a) {
      if (!layout[a].is_partial() || sums_stay_[id][a]) continue;
      added[a] = layout[a].kind == Placement::Kind::kSum ? put_together(id, a) : Placement();
    }
    return bytes_between(value.type, layout, added);
  }

  double bytes_between(const TensorType& type, const Layout& from, const Layout& to) const {
    const auto path = changes(from, to, type.shape, mesh_);
    return path ? bytes_sent(*path, type, from, mesh_) : kNever;
  }

  void take(const Node& node, Decision decision) {
    const OperandLayouts& layouts = decision.layouts;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      std::vector<Layout>& versions = versions_[node.inputs[i]];
      if (std::ranges::find(versions, layouts.inputs[i]) == versions.end())
        versions.push_back(layouts.inputs[i]);
    }
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const ValueId id = node.outputs[o];
      result_.values[id] = layouts.outputs[o];
      const Layout* pinned = pinned_.layout(id);
      const std::optional<Layout> home = pinned ? std::nullopt : home_of(node, o, layouts.outputs[o]);
      if (home) result_.homes[id] = *home;
      versions_[id] = {pinned_.is_like_state(id) ? pinned_.state(id).use
                       : pinned                  ? *pinned
                       : home                    ? *home
                                                 : layouts.outputs[o]};
    }
    result_.nodes.push_back(std::move(decision.spread));
  }

  [[noreturn]] void refuse(const Node& node) const {
    std::string found;
    for (ValueId input : node.inputs) {
      found += fmt::format("{}{} {}", found.empty() ? "" : ", ", graph_.values[input].name,
                           to_string(versions_[input].back(), mesh_));
    }
    throw_error(
        "[{}] no way to compute {} on the mesh '{}' from {}; a value that is still to be added up is wanted "
        "whole where nothing adds it, or the other way round",
        node.op->name, graph_.values[node.outputs[0]].name, to_string(mesh_), found);
  }

  const Graph& graph_;
  const Mesh& mesh_;
  const Pins& pins_;
  const PinnedValues& pinned_;
  // Of nodes that were decided on, one of each form, by a hash of it.
  std::unordered_multimap<size_t, Decided> decided_;
  std::unordered_map<std::string_view, const NodeSpread*> known_;  // by the node's first result
  Spread result_;
  std::vector<std::vector<Layout>> versions_;  // per value: the layouts in which it is to be had
  std::vector<std::vector<bool>> sums_stay_;   // per value and axis
  std::unordered_map<ValueId, std::vector<ValueId>>
      renewed_;  // value -> the states that hold it after the run
};

}  // namespace

const Layout* pinned_layout(const Pins& pins, const Value& value) {
  const auto found = pins.values.find(value.name);
  if (found != pins.values.end()) return &found->second;
  if (value.kind != Value::Kind::kResult) return nullptr;
  const auto state = pins.states.find(value.name);
  return state == pins.states.end() ? nullptr : &state->second.rest;
}

bool is_like_state(const Pins& pins, const Value& value) {
  return value.kind == Value::Kind::kState || pins.states.contains(value.name);
}

PinnedValues::PinnedValues(const Graph& graph, const Mesh& mesh, const Pins& pins)
    : replicated_{replicated(mesh), replicated(mesh)} {
  for (const Value& value : graph.values) {
    const auto state = pins.states.find(value.name);
    values_.push_back({pinned_layout(pins, value), state != pins.states.end()          ? &state->second
                                                   : value.kind == Value::Kind::kState ? &replicated_
                                                                                       : nullptr});
  }
}

StateLayout state_layout(const Pins& pins, const Value& state, const Mesh& mesh) {
  const auto found = pins.states.find(state.name);
  return found == pins.states.end() ? StateLayout{replicated(mesh), replicated(mesh)} : found->second;
}

bool tells_position(const Node& node, const IndexRule& rule, int index) {
  if (!node.op->localize) return false;
  Attrs attrs = node.attrs;
  node.op->localize(attrs, rule, index, 1, rule.indices[index].extent);
  return attrs != node.attrs;
}

IndexRule rule_of(const Graph& graph, const Node& node) {
  const std::vector<TensorType> types = graph.types_of(node.inputs);
  return node.op->index({node.op->name, types, node.attrs});
}

OperandLayouts operand_layouts(const Graph& graph, const Node& node, const NodeSpread& spread,
                               const Mesh& mesh) {
  return layouts_by(rule_of(graph, node), graph, node, spread, mesh);
}

Spread spread(const Graph& graph, const Mesh& mesh, const Pins& pins, const Alike* alike) {
  const PinnedValues pinned(graph, mesh, pins);
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    if (const Layout* layout = pinned.layout(static_cast<ValueId>(v)))
      check_layout(*layout, value.type.shape, mesh, value.name);
    if (!pinned.is_like_state(static_cast<ValueId>(v))) continue;
    const StateLayout& layout = pinned.state(static_cast<ValueId>(v));
    check_layout(layout.rest, value.type.shape, mesh, value.name);
    check_layout(layout.use, value.type.shape, mesh, value.name);
    if (!changes(layout.rest, layout.use, value.type.shape, mesh)) {
      throw_error("state {}: nothing leads from {} at rest to {} in use", value.name,
                  to_string(layout.rest, mesh), to_string(layout.use, mesh));
    }
  }
  return Search(graph, mesh, pins, pinned, alike).run();
}

}  // namespace trireme
