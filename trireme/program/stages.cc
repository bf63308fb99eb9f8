// Names for pieces and stashes, put together from passes/stage.h and stage_order.h.
#include "trireme/program/stages.h"

#include <algorithm>
#include <optional>
#include <set>

#include "trireme/base/error.h"
#include "trireme/ir/equal.h"
#include "trireme/ops/table.h"
#include "trireme/passes/second_holder.h"
#include "trireme/passes/weight_versions.h"
#include "trireme/plan/combinations.h"

namespace trireme {
namespace {

// Each chunk forward once, on the first stage that has it.
Pipeline forward_only(const Pipeline& pipeline) {
  Pipeline result{.microbatches = 1, .chunks = pipeline.chunks, .holds = pipeline.holds};
  result.order.resize(pipeline.order.size());
  for (int chunk = 0; chunk < pipeline.chunks; ++chunk) {
    const auto holder = std::ranges::find_if(pipeline.holds, [&](const std::vector<int>& chunks) {
      return std::ranges::find(chunks, chunk) != chunks.end();
    });
    TRIREME_CHECK((holder != pipeline.holds.end()));
    result.order[holder - pipeline.holds.begin()].push_back({Phase::kForward, chunk, 0});
  }
  return result;
}

// How the ranks along the axis tensor send what crosses chunks; nothing where each sends it whole.
std::optional<CrossingParts> crossing_parts(const Stages::Place& place, const NamedLayouts& layouts,
                                            const Pipeline& pipeline) {
  if (place.boundaries == Plan::Boundaries::kWhole) return std::nullopt;
  const int axis = place.mesh.axis("tensor"), ways = place.mesh.axes()[axis].size;
  if (ways == 1) return std::nullopt;
  CrossingParts parts{
      .axis = "tensor", .ways = ways, .coordinate = place.mesh.coordinate(place.in_stage, axis)};
  parts.are_alike = [&layouts, axis](const Value& value) {
    const auto found = layouts.find(value.name);
    return found != layouts.end() && found->second[axis].kind == Placement::Kind::kReplicated;
  };
  parts.is_whole = [&layouts](const Value& value, int dim) {
    return std::ranges::none_of(layouts.at(value.name), [&](const Placement& placement) {
      return placement.kind == Placement::Kind::kSplit && placement.dim == dim;
    });
  };
  parts.are_apart = [&pipeline](int from, int to) {
    return std::ranges::none_of(pipeline.holds, [&](const std::vector<int>& chunks) {
      return std::ranges::count(chunks, from) > 0 && std::ranges::count(chunks, to) > 0;
    });
  };
  return parts;
}

}  // namespace

StateStages stages_of_parameters(const Graph& first, const Cut& cut, const Pipeline& pipeline) {
  std::map<std::string, std::set<int>> found;
  for (const Node& node : first.nodes) {
    const int chunk = cut.chunk_of_name(first.values[node.outputs[0]].name);
    for (const ValueId input : node.inputs) {
      if (first.values[input].role != Role::kParameter) continue;
      for (int s = 0; s < pipeline.stages(); ++s) {
        if (std::ranges::count(pipeline.holds[s], chunk) > 0) found[first.values[input].name].insert(s);
      }
    }
  }
  StateStages result;
  for (const auto& [name, stages] : found) result[name] = {stages.begin(), stages.end()};
  return result;
}

Stages::Stages(const std::vector<StepSegment>& local, const Pipeline& pipeline, const Cut& cut,
               const Place& place)
    : local_(local), pipeline_(pipeline), evaluation_(forward_only(pipeline)) {
  const WeightPhase phases = has_phase(pipeline, Phase::kWeight) ? WeightPhase::kApart : WeightPhase::kNone;
  for (size_t s = 0; s < local.size(); ++s) {
    const bool evaluates = local[s].kind == SegmentKind::kEvaluate;
    if (evaluates) evaluate_ = s;
    if (s != kFirst && local[s].kind == SegmentKind::kForwardBackward) next_ = s;
    if (local[s].kind == SegmentKind::kUpdate) {
      update_of_.push_back(s);
      staged_.emplace_back();
    } else {
      const std::optional<CrossingParts> parts = crossing_parts(place, place.layouts[s], pipeline);
      staged_.push_back(trireme::stage(local[s].graph, cut, evaluates ? WeightPhase::kNone : phases, ops(),
                                       evaluates ? "evaluate" : "stash", parts ? &*parts : nullptr));
    }
  }
  orders_.emplace(pipeline_, staged_.front().crossings);
  evaluation_orders_.emplace(evaluation_, staged_[evaluate_].crossings);
  add_state_stages();
  if (is_asynchronous(pipeline)) {
    updates_ = own_updates();
    return;
  }
  updates_ = stage_updates(with_sums_of_holders(local[update_of_[0]].graph, replicated_gradients_, ops()),
                           state_stages_, pipeline.stages(), ops());
  update_of_.resize(updates_.size(), update_of_[0]);
}

// What a stage's own update reads of gradients that it does not have (the loss, the count of targets) comes
// with the backward pass, from the stage behind.
std::vector<StagedUpdate> Stages::own_updates() const {
  std::vector<StagedUpdate> result;
  for (int s = 0; s < pipeline_.stages(); ++s) {
    TRIREME_CHECK((pipeline_.holds[s] == std::vector<int>{s}));
    StagedUpdate& update = result.emplace_back(StagedUpdate{local_[update_of_[s]].graph, {}});
    update.graph.name = "update";
    for (const Value& value : update.graph.values) {
      if (value.role == Role::kGradient && state_stages_.at(value.name) != std::vector<int>{s})
        update.borrowed.push_back({value.name, s + 1});
    }
  }
  return result;
}

bool Stages::is_second_holder(int chunk, int number) const {
  const auto first = std::ranges::find_if(pipeline_.holds, [&](const std::vector<int>& chunks) {
    return std::ranges::find(chunks, chunk) != chunks.end();
  });
  return first - pipeline_.holds.begin() < number;
}

void Stages::add_state_stages() {
  std::map<std::string, std::set<int>, std::less<>> found;
  for (const Staged& staged : staged_) {
    for (const Piece& piece : staged.pieces) {
      for (const Value& value : piece.graph.values) {
        if (value.kind != Value::Kind::kState || value.role == Role::kStash) continue;
        for (int s = 0; s < pipeline_.stages(); ++s) {
          if (std::ranges::find(pipeline_.holds[s], piece.chunk) == pipeline_.holds[s].end()) continue;
          const bool second = is_second_holder(piece.chunk, s);
          if (second && value.role == Role::kPending)
            check_combinations({Feature::kChimera, Feature::kRunningStatistics});
          const bool apart = second && value.role == Role::kGradient;
          if (apart) replicated_gradients_.insert(value.name);
          found[apart ? second_name(value.name) : value.name].insert(s);
        }
      }
    }
  }
  for (const auto& [name, stages] : found) state_stages_[name] = {stages.begin(), stages.end()};
  for (const StepSegment& segment : local_) {  // the optimizer's
    if (segment.kind != SegmentKind::kUpdate) continue;
    for (const Value& value : segment.graph.values) {
      if (const auto of = state_stages_.find(value.attrs.text("of", "")); of != state_stages_.end())
        state_stages_.emplace(value.name, of->second);
    }
  }
}

std::map<std::string, int, std::less<>> Stages::parameter_chunks() const {
  std::map<std::string, std::set<int>> found;
  for (const Staged& staged : staged_) {
    for (const Piece& piece : staged.pieces) {
      for (const Value& value : piece.graph.values) {
        if (value.role == Role::kParameter) found[value.name].insert(piece.chunk);
      }
    }
  }
  std::map<std::string, int, std::less<>> result;
  for (const auto& [name, chunks] : found) {
    if (chunks.size() == 1) result[name] = *chunks.begin();
  }
  return result;
}

const Piece* Stages::find(size_t segment, int chunk, Phase phase) const {
  const auto found = std::ranges::find_if(staged_[segment].pieces, [&](const Piece& piece) {
    return piece.chunk == chunk && piece.phase == phase;
  });
  return found == staged_[segment].pieces.end() ? nullptr : &*found;
}

// What adds nothing to what was before it is the same piece for the first microbatch and for the next; ""
// where there is nothing to do.
Stages::Names Stages::names_of(int chunk, Phase phase) const {
  const Piece *first = find(kFirst, chunk, phase), *next = next_ ? find(*next_, chunk, phase) : nullptr;
  Names names;
  if (first) names.first = names.next = first->graph.name;
  if (next && !(first && are_equal(next->graph, first->graph, GraphNames::kIgnored)))
    names.next = next->graph.name;
  return names;
}

namespace {

using Kind = StageOrder::Item::Kind;
using ReadWeights = StageOrder::Item::Weights;

Action message(const StageOrder::Item& item, const Staged& staged, const std::vector<int>& peers) {
  const std::string& state = staged.crossings[item.crossing].state;
  const int slot = static_cast<int>(item.microbatch);
  return item.kind == Kind::kSend ? Action::send(state, peers[item.peer], slot)
                                  : Action::receive(state, peers[item.peer], slot);
}

// The weights that a stage's turns of a phase read. Where it is now the newest and now kept ones, there is a
// second piece for those.
enum class Reads { kNewest, kKept, kBoth };
Reads reads_of(const std::vector<StageOrder::Item>& items, Phase phase) {
  bool newest = false, kept = false;
  for (const StageOrder::Item& item : items) {
    if (item.kind != Kind::kRun || item.turn.phase != phase) continue;
    (item.weights == ReadWeights::kKept ? kept : newest) = true;
  }
  return kept ? newest ? Reads::kBoth : Reads::kKept : Reads::kNewest;
}

std::string on_kept_weights(const std::string& piece) {
  return piece + ".kept";
}

}  // namespace

std::vector<Action> Stages::step_actions(const Items& items, const Seat& seat) const {
  const bool asynchronous = is_asynchronous(pipeline_);
  const int64_t last = pipeline_.microbatches - 1;
  std::vector<Action> actions;
  std::map<std::pair<Phase, int>, Names> names;
  for (const StageOrder::Item& item : items) {
    if (item.kind == Kind::kSend || item.kind == Kind::kReceive) {
      actions.push_back(message(item, staged_.front(), seat.peers));
      continue;
    }
    if (item.kind == Kind::kKeep) {
      actions.push_back(Action::run("keep", 0, static_cast<int>(item.microbatch)));
      continue;
    }
    const auto& [phase, chunk, microbatch, version] = item.turn;
    if (phase == Phase::kUpdate) {
      add_update_actions(actions, seat);
      continue;
    }
    if (asynchronous && phase == Phase::kBackward && microbatch == last) {
      for (const StagedUpdate::Borrowed& borrowed : updates_[seat.number].borrowed)
        actions.push_back(Action::receive(borrowed.state, seat.peers[borrowed.from]));
    }
    const auto [known, is_new] = names.try_emplace(std::pair(phase, chunk));
    if (is_new) known->second = names_of(chunk, phase);
    // Of several stages that hold a chunk each has a first microbatch of its own.
    const bool is_first = asynchronous ? microbatch % pipeline_.microbatches == 0 : is_new;
    std::string name = is_first ? known->second.first : known->second.next;
    if (name.empty()) continue;
    if (item.weights == ReadWeights::kKept && reads_of(items, phase) == Reads::kBoth)
      name = on_kept_weights(name);
    actions.push_back(Action::run(std::move(name), microbatch, static_cast<int>(microbatch)));
  }
  if (!asynchronous) add_update_actions(actions, seat);
  return actions;
}

std::vector<Action> Stages::evaluation_actions(const Items& items, const Seat& seat) const {
  std::vector<Action> actions;
  for (const StageOrder::Item& item : items) {
    if (item.kind == Kind::kRun)
      actions.push_back(
          Action::run(piece_name(local_[evaluate_].graph.name, item.turn.chunk, Phase::kForward)));
    else
      actions.push_back(message(item, staged_[evaluate_], seat.peers));
  }
  return actions;
}

// Gradients that others need go out, those of others come in. Of an asynchronous pipeline the latter have
// come.
void Stages::add_update_actions(std::vector<Action>& actions, const Seat& seat) const {
  for (size_t s = 0; s < updates_.size(); ++s) {
    for (const StagedUpdate::Borrowed& borrowed : updates_[s].borrowed) {
      if (borrowed.from == seat.number) actions.push_back(Action::send(borrowed.state, seat.peers[s]));
      if (static_cast<int>(s) == seat.number && !is_asynchronous(pipeline_))
        actions.push_back(Action::receive(borrowed.state, seat.peers[borrowed.from]));
    }
  }
  actions.push_back(Action::run(updates_[seat.number].graph.name));
}

// The pieces that the actions run, the update, and what keeps weights for older microbatches.
void Stages::add_parts(Stage& stage, int number, const StageOrder& order) const {
  std::set<std::string> run;
  for (const auto* list : {&stage.fill, &stage.step, &stage.evaluation}) {
    for (const Action& action : *list) {
      if (action.kind == Action::Kind::kRun) run.insert(action.what);
    }
  }
  for (size_t s = 0; s < staged_.size(); ++s) {
    for (const Piece& piece : staged_[s].pieces) {
      const auto add = [&](Graph graph) { stage.parts.push_back({{std::move(graph), local_[s].kind}, s}); };
      const std::string& name = piece.graph.name;
      const bool old = s != evaluate_ && reads_of(order.items, piece.phase) == Reads::kKept;
      if (run.contains(name))
        add(old                                     ? with_kept_weights(piece.graph)
            : is_second_holder(piece.chunk, number) ? for_second_holder(piece.graph)
                                                    : piece.graph);
      if (run.contains(on_kept_weights(name))) {
        add(with_kept_weights(piece.graph));
        stage.parts.back().segment.graph.name = on_kept_weights(name);
      }
    }
  }
  stage.parts.push_back({{updates_[number].graph, SegmentKind::kUpdate}, update_of_[number]});
  if (order.kept == 0) return;
  std::vector<const Graph*> graphs;
  for (const Stage::Part& part : stage.parts) graphs.push_back(&part.segment.graph);
  stage.parts.push_back({{keeping_graph(graphs, ops())}, 0});
  for (const Value& value : stage.parts.back().segment.graph.values) {
    if (value.role == Role::kVersion) stage.slots[value.name] = order.kept;
  }
}

Stage Stages::stage(int number, const std::vector<int>& peers) const {
  const Seat seat{number, peers};
  const StageOrder order = orders_->of(number), evaluation = evaluation_orders_->of(number);
  Stage stage;
  stage.step = step_actions(order.items, seat);
  if (is_asynchronous(pipeline_)) stage.fill = step_actions(order.fill, seat);
  stage.evaluation = evaluation_actions(evaluation.items, seat);
  add_parts(stage, number, order);
  const auto add_slots = [&](const Staged& staged, const StageOrder& from) {
    for (size_t c = 0; c < staged.crossings.size(); ++c) {
      if (from.slots[c] > 0) stage.slots[staged.crossings[c].state] = from.slots[c];
    }
  };
  // Those of others are placed when the lists are whole (stash_places.h).
  if (is_asynchronous(pipeline_)) {
    add_slots(staged_.front(), order);
    add_slots(staged_[evaluate_], evaluation);
  }
  return stage;
}

}  // namespace trireme
