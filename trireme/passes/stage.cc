// Each node gets a chunk and a phase; then the pieces are built side by side, and what one lacks another
// leaves.
#include "trireme/passes/stage.h"

#include <fmt/format.h>

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/ir/graph_copy.h"
#include "trireme/ir/verify.h"

namespace trireme {
namespace {

// Where a node is run.
struct Place {
  int chunk = 0;
  Phase phase = Phase::kForward;
  friend auto operator<=>(const Place&, const Place&) = default;
};

class Placing {
 public:
  Placing(const Graph& graph, const Cut& cut, const std::vector<bool>& of_states)
      : graph_(graph), cut_(cut), of_states_(of_states), places_(graph.nodes.size()) {}

  std::vector<Place> run(WeightPhase weights) {
    find_forward();
    find_of_inputs();
    for (size_t n = 0; n < places_.size(); ++n) places_[n].chunk = chunk_of(static_cast<int>(n));
    follow_readers();
    if (weights == WeightPhase::kApart) find_weights();
    return std::move(places_);
  }

 private:
  // What outputs and states that are no parameter's gradient (pending ones, the sums of losses and counts)
  // depend on; all else is backward.
  void find_forward() {
    std::vector<bool> needed(graph_.values.size());
    for (const Output& output : graph_.outputs) needed[output.value] = true;
    for (const Update& update : graph_.updates) {
      if (!graph_.values[update.state].attrs.has("of")) needed[update.value] = true;
    }
    for (size_t n = places_.size(); n-- > 0;) {
      const Node& node = graph_.nodes[n];
      const bool forward = std::ranges::any_of(node.outputs, [&](ValueId output) { return needed[output]; });
      places_[n].phase = forward ? Phase::kForward : Phase::kBackward;
      if (!forward) continue;
      for (ValueId input : node.inputs) needed[input] = true;
    }
  }

  // What is made of inputs alone and has no scope (targets that ranks gather): whoever reads it first makes
  // it.
  void find_of_inputs() {
    std::vector<bool> value(graph_.values.size());
    for (size_t v = 0; v < value.size(); ++v) value[v] = graph_.values[v].kind == Value::Kind::kInput;
    for (const Node& node : graph_.nodes) {
      const bool all = cut_.chunk_of_name(graph_.values[node.outputs[0]].name) < 0 &&
                       std::ranges::all_of(node.inputs, [&](ValueId input) { return value[input]; });
      of_inputs_.push_back(all);
      for (ValueId output : node.outputs) value[output] = all;
    }
  }

  void follow_readers() {
    std::vector<int> read_in(places_.size(), -1);
    for (size_t n = places_.size(); n-- > 0;) {
      const auto& [chunk, phase] = places_[n];
      if (of_inputs_[n]) places_[n].chunk = std::max(0, read_in[n]);
      for (ValueId input : graph_.nodes[n].inputs) {
        const int maker = graph_.values[input].node;
        if (maker < 0 || places_[maker].phase != phase) continue;
        int& first = read_in[maker];
        first = first < 0                  ? chunk
                : phase == Phase::kForward ? std::min(first, chunk)
                                           : std::max(first, chunk);
      }
    }
  }

  // By its name; but never before what it reads was made, which is later in the forward part and earlier in
  // the backward part. What has no scope (sums into gradient states) is where its operands are.
  int chunk_of(int n) const {
    const bool forward = places_[n].phase == Phase::kForward;
    int chunk = cut_.chunk_of_name(graph_.values[graph_.nodes[n].outputs[0]].name), of_forward = -1;
    for (ValueId input : graph_.nodes[n].inputs) {
      const int maker = graph_.values[input].node;
      if (maker < 0 || of_states_[maker] || of_inputs_[maker]) continue;
      const auto& [there, phase] = places_[maker];
      if (phase != places_[n].phase)
        of_forward = std::max(of_forward, there);
      else if (chunk < 0 || (forward ? there > chunk : there < chunk))
        chunk = there;
    }
    return chunk >= 0 ? chunk : std::max(0, of_forward);
  }

  // A backward node that leads to one gradient and nowhere else is for weights.
  void find_weights() {
    constexpr int kNone = -1, kMany = -2;
    std::vector<int> leads_to(graph_.values.size(), kNone);
    const auto add = [&](ValueId value, int sink) {
      int& known = leads_to[value];
      known = known == kNone || known == sink ? sink : kMany;
    };
    for (const Update& update : graph_.updates) add(update.value, update.state);
    for (size_t n = places_.size(); n-- > 0;) {
      if (places_[n].phase != Phase::kBackward) continue;
      int sink = kNone;
      for (ValueId output : graph_.nodes[n].outputs) {
        if (leads_to[output] != kNone)
          sink = sink == kNone || sink == leads_to[output] ? leads_to[output] : kMany;
      }
      if (sink >= 0) places_[n].phase = Phase::kWeight;
      for (ValueId input : graph_.nodes[n].inputs) {
        const int maker = graph_.values[input].node;
        if (maker < 0) continue;
        add(input, places_[maker].chunk == places_[n].chunk ? sink : kMany);
      }
    }
    follow_addends();
  }

  // A node that adds to what a gradient's state has is where the addend is made.
  void follow_addends() {
    for (const Update& update : graph_.updates) {
      const int n = graph_.values[update.value].node;
      if (n < 0 || std::ranges::find(graph_.nodes[n].inputs, update.state) == graph_.nodes[n].inputs.end())
        continue;
      const bool all = std::ranges::all_of(graph_.nodes[n].inputs, [&](ValueId input) {
        const int maker = graph_.values[input].node;
        return maker < 0 || places_[maker].phase == Phase::kBackward;
      });
      if (all) places_[n].phase = Phase::kBackward;
    }
  }

  const Graph& graph_;
  const Cut& cut_;
  const std::vector<bool>& of_states_;
  std::vector<bool> of_inputs_;
  std::vector<Place> places_;
};

class Stager {
 public:
  Stager(const Graph& graph, const Cut& cut, WeightPhase weights, const OpTable& ops, std::string_view prefix,
         const CrossingParts* parts)
      : graph_(graph),
        ops_(ops),
        prefix_(prefix),
        parts_(parts),
        readers_(parts ? graph.readers() : std::vector<std::vector<int>>()),
        of_states_(made_of_states(graph)),
        places_(Placing(graph, cut, of_states_).run(weights)),
        end_{cut.chunks - 1, Phase::kForward} {
    if (parts_) find_sums();
  }

  Staged run() {
    for (size_t n = 0; n < places_.size(); ++n) {
      if (!of_states_[n]) add(places_[n], static_cast<int>(n));
    }
    for (const Update& update : graph_.updates) {
      const Place& place = home(update.value);
      Builder& b = piece(place).builder();
      b.update(had(place, update.state), had(place, update.value));
    }
    for (const Output& output : graph_.outputs)
      piece(end_).builder().output(output.name, had(end_, output.value), output.role);
    return finish();
  }

 private:
  GraphCopy& piece(const Place& place) {
    const auto found = pieces_.find(place);
    if (found != pieces_.end()) return found->second;
    return pieces_.emplace(place, GraphCopy(graph_, ops_, piece_name(graph_.name, place.chunk, place.phase)))
        .first->second;
  }

  // Where an update is written down.
  Place home(ValueId value) const {
    const int maker = graph_.values[value].node;
    return maker < 0 ? Place{} : places_[maker];
  }

  void add(const Place& place, int n) {
    const Node& node = graph_.nodes[n];
    for (ValueId input : node.inputs) had(place, input);
    piece(place).add(node);
  }

  bool is_view(int node) const { return graph_.nodes[node].op->memory == OpRecord::Memory::kShared; }

  ValueId had(const Place& place, ValueId value) {
    GraphCopy& here = piece(place);
    if (here.has(value)) return here[value];
    const Value& what = graph_.values[value];
    if (what.kind != Value::Kind::kResult) return here.declare(value);
    if (of_states_[what.node] || is_view(what.node)) {
      add(place, what.node);
      return here[value];
    }
    const Place& maker = places_[what.node];
    TRIREME_CHECK(maker != place);
    if (parts_ && maker.chunk != place.chunk && parts_->are_apart(maker.chunk, place.chunk)) {
      if (const auto sum = sum_of_.find(value); sum != sum_of_.end())
        return here.set(value, here.builder().op("affine", {had(place, sum->second)},
                                                 {{"scale", parts_->coordinate == 0 ? 1.0 : 0.0}},
                                                 what.name + ".addend"));
      if (is_over_axis(graph_.nodes[what.node], CollectiveKind::kAllGather)) {
        add(place, what.node);
        return here[value];
      }
    }
    if (const int dim = maker.chunk == place.chunk ? -1 : part_dim(what, maker.chunk, place.chunk); dim >= 0)
      return here.set(value, gathered(place, value, dim));
    crossings_[value].insert({place.chunk, place.phase});
    return here.set(value, here.builder().state(stash_name(what), what.type, Role::kStash));
  }

  std::string stash_name(const Value& value) const { return fmt::format("{}.{}", prefix_, value.name); }
  std::string part_name(const Value& value) const { return stash_name(value) + ".part"; }
  std::string gathered_name(const Value& value, int chunk) const {
    return fmt::format("{}.in.{}", stash_name(value), chunk);
  }

  // The dim that is cut where a value goes in parts; −1 where it goes whole.
  int part_dim(const Value& value, int from, int to) const {
    if (!parts_ || !parts_->are_apart(from, to) || !parts_->are_alike(value)) return -1;
    for (int dim = 0; dim < value.type.shape.rank(); ++dim) {
      const int64_t extent = value.type.shape[dim];
      // All ranks decide alike.
      if (extent > 1 && extent % parts_->ways == 0 && parts_->is_whole(value, dim)) return dim;
    }
    return -1;
  }
  TensorType part_type(TensorType type, int dim) const {
    type.shape.set(dim, type.shape[dim] / parts_->ways);
    return type;
  }

  bool is_over_axis(const Node& node, CollectiveKind kind) const {
    return node.op->collective && node.op->collective->kind == kind &&
           node.attrs.text("axis", "") == parts_->axis;
  }
  void find_sums() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (!is_over_axis(node, CollectiveKind::kAllReduce) || node.attrs.text("reduction", "") != "sum")
        continue;
      const int maker = graph_.values[node.inputs[0]].node;
      if (maker < 0 || of_states_[maker] || places_[maker] != places_[n]) continue;
      sum_of_.emplace(node.inputs[0], node.outputs[0]);
      addends_of_[node.outputs[0]] = node.inputs[0];
    }
  }

  // The first phase in which a chunk reads a value, itself, as a view or as addends.
  Phase first_phase(ValueId value, int chunk) const {
    Phase first = end_.chunk == chunk && is_output(value) ? Phase::kForward : Phase::kWeight;
    if (const auto addends = addends_of_.find(value); addends != addends_of_.end())
      first = first_phase(addends->second, chunk);
    for (int reader : readers_[value]) {
      if (places_[reader].chunk == chunk) first = std::min(first, places_[reader].phase);
      if (is_view(reader)) first = std::min(first, first_phase(graph_.nodes[reader].outputs[0], chunk));
    }
    return first;
  }
  bool is_output(ValueId value) const {
    return std::ranges::find(graph_.outputs, value, &Output::value) != graph_.outputs.end();
  }

  // By the first piece of a chunk that reads it; the chunk's others find it whole.
  ValueId gathered(const Place& place, ValueId value, int dim) {
    const Value& what = graph_.values[value];
    Builder& b = piece(place).builder();
    Gatherer& gatherer = gatherers_[{value, place.chunk}];
    gatherer.place = {place.chunk, first_phase(value, place.chunk)};
    if (gatherer.place != place) {
      gatherer.readers.insert({place.chunk, place.phase});
      return b.state(gathered_name(what, place.chunk), what.type, Role::kStash);
    }
    InParts& sent = in_parts_[value];
    sent.dim = dim;
    sent.readers.insert({place.chunk, place.phase});
    const ValueId part = b.state(part_name(what), part_type(what.type, dim), Role::kStash);
    return b.op("all_gather", {part},
                {{"axis", parts_->axis},
                 {"ways", parts_->ways},
                 {"coordinate", parts_->coordinate},
                 {"dim", int64_t{dim}},
                 {"extent", what.type.shape[dim]}},
                what.name + ".parts");
  }

  // What a piece leaves in a state for others.
  void leave(Staged& result, const Place& place, const std::string& state, ValueId local,
             const std::set<Crossing::Reader>& readers) {
    Builder& b = piece(place).builder();
    b.update(b.state(state, b.type(local), Role::kStash), local);
    result.crossings.push_back({state, place.chunk, place.phase, readers});
  }

  Staged finish() {
    Staged result;
    for (const auto& [value, readers] : crossings_) {
      const Value& what = graph_.values[value];
      const Place& place = places_[what.node];
      leave(result, place, stash_name(what), piece(place)[value], readers);
    }
    for (const auto& [value, sent] : in_parts_) {
      const Value& what = graph_.values[value];
      const Place& place = places_[what.node];
      const int64_t size = what.type.shape[sent.dim] / parts_->ways;
      const ValueId part = piece(place).builder().op(
          "slice", {piece(place)[value]},
          {{"dim", int64_t{sent.dim}}, {"start", parts_->coordinate * size}, {"size", size}},
          what.name + ".part");
      leave(result, place, part_name(what), part, sent.readers);
    }
    for (const auto& [key, gatherer] : gatherers_) {
      const auto& [value, chunk] = key;
      if (!gatherer.readers.empty())
        leave(result, gatherer.place, gathered_name(graph_.values[value], chunk),
              piece(gatherer.place)[value], gatherer.readers);
    }
    for (auto& [place, copy] : pieces_) {
      result.pieces.push_back({place.chunk, place.phase, copy.take()});
      debug_verify(result.pieces.back().graph);
    }
    std::ranges::stable_sort(result.pieces, {}, [&](const Piece& piece) {
      return std::pair(piece.phase, piece.phase == Phase::kForward ? piece.chunk : -piece.chunk);
    });
    return result;
  }

  const Graph& graph_;
  const OpTable& ops_;
  std::string_view prefix_;
  const CrossingParts* parts_;             // null: all goes whole
  std::vector<std::vector<int>> readers_;  // of values; where anything goes in parts
  std::map<ValueId, ValueId> sum_of_, addends_of_;
  std::vector<bool> of_states_;
  std::vector<Place> places_;
  Place end_;  // of the forward part, where all outputs are: whoever reads logits has the targets too
  std::map<Place, GraphCopy> pieces_;
  std::map<ValueId, std::set<Crossing::Reader>> crossings_;
  struct InParts {
    int dim = 0;
    std::set<Crossing::Reader> readers;
  };
  std::map<ValueId, InParts> in_parts_;
  struct Gatherer {
    Place place;
    std::set<Crossing::Reader> readers;  // beside itself
  };
  std::map<std::pair<ValueId, int>, Gatherer> gatherers_;  // by value and chunk
};

}  // namespace

std::string piece_name(std::string_view whole, int chunk, Phase phase) {
  return fmt::format("{}.{}.{}", whole, chunk, name(phase));
}

std::optional<Phase> phase_of_piece(std::string_view piece) {
  const std::string_view last = piece.substr(piece.rfind('.') + 1);
  for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kWeight}) {
    if (last == name(phase)) return phase;
  }
  return std::nullopt;
}

Staged stage(const Graph& graph, const Cut& cut, WeightPhase weights, const OpTable& ops,
             std::string_view prefix, const CrossingParts* parts) {
  return Stager(graph, cut, weights, ops, prefix, parts).run();
}

}  // namespace trireme
