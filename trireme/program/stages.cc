// Names for pieces and stashes, put together from passes/stage.h and stage_order.h.
#include "trireme/program/stages.h"

#include <algorithm>
#include <set>

#include "trireme/base/error.h"
#include "trireme/ir/text.h"
#include "trireme/ops/table.h"
#include "trireme/passes/second_holder.h"
#include "trireme/program/stage_order.h"

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

// But for the name.
bool same_graph(Graph a, const Graph& b) {
  a.name = b.name;
  return print(a) == print(b);
}

[[noreturn]] void refuse_pending(std::string_view state) {
  throw_error(
      "every microbatch renews %{} from what the one before left, but the schedule has its microbatches "
      "computed by two stages at once; use a schedule that has each chunk on one stage, such as 1f1b",
      state);
}

}  // namespace

Stages::Stages(const std::vector<StepSegment>& local, const Pipeline& pipeline, const Cut& cut)
    : local_(local), pipeline_(pipeline), evaluation_(forward_only(pipeline)) {
  const WeightPhase phases = has_phase(pipeline, Phase::kWeight) ? WeightPhase::kApart : WeightPhase::kNone;
  for (size_t s = 0; s < local.size(); ++s) {
    const bool evaluates = local[s].kind == SegmentKind::kEvaluate;
    if (evaluates) evaluate_ = s;
    if (local[s].kind == SegmentKind::kUpdate) {
      update_ = s;
      staged_.emplace_back();
    } else {
      staged_.push_back(trireme::stage(local[s].graph, cut, evaluates ? WeightPhase::kNone : phases, ops(),
                                       evaluates ? "evaluate" : "stash"));
    }
  }
  add_state_stages();
  updates_ = stage_updates(with_sums_of_holders(local[update_].graph, held_twice_, ops()), state_stages_,
                           static_cast<int>(pipeline.order.size()), ops());
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
          if (second && value.role == Role::kPending) refuse_pending(value.name);
          const bool apart = second && value.role == Role::kGradient;
          if (apart) held_twice_.insert(value.name);
          found[apart ? second_name(value.name) : value.name].insert(s);
        }
      }
    }
  }
  for (const auto& [name, stages] : found) state_stages_[name] = {stages.begin(), stages.end()};
  for (const Value& value : local_[update_].graph.values) {  // the optimizer's
    if (const auto of = state_stages_.find(value.attrs.text("of", "")); of != state_stages_.end())
      state_stages_.emplace(value.name, of->second);
  }
}

const Piece* Stages::find(std::string_view whole, int chunk, Phase phase) const {
  const std::string name = piece_name(whole, chunk, phase);
  for (const Staged& staged : staged_) {
    for (const Piece& piece : staged.pieces) {
      if (piece.graph.name == name) return &piece;
    }
  }
  return nullptr;
}

// What adds nothing to what was before it is the same piece for the first microbatch and for the next; ""
// where there is nothing to do.
Stages::Names Stages::names_of(int chunk, Phase phase) const {
  const Piece *first = find("first", chunk, phase), *next = find("next", chunk, phase);
  Names names;
  if (first) names.first = names.next = first->graph.name;
  if (next && !(first && same_graph(next->graph, first->graph))) names.next = next->graph.name;
  return names;
}

void Stages::add_actions(std::vector<Action>& actions, Stage& stage, int number,
                         const std::vector<int>& peers, const Pipeline& pipeline,
                         const Staged& staged) const {
  const bool evaluates = &pipeline == &evaluation_;
  const StageOrder order = stage_order(pipeline, staged.crossings, number);
  std::map<std::pair<Phase, int>, Names> begun;
  for (const StageOrder::Item& item : order.items) {
    const int slot = static_cast<int>(item.microbatch);
    if (item.kind == StageOrder::Item::Kind::kSend) {
      actions.push_back(Action::send(staged.crossings[item.crossing].state, peers[item.peer], slot));
    } else if (item.kind == StageOrder::Item::Kind::kReceive) {
      actions.push_back(Action::receive(staged.crossings[item.crossing].state, peers[item.peer], slot));
    } else {
      const auto& [phase, chunk, microbatch, version] = item.turn;
      const auto [known, is_first] = begun.try_emplace(std::pair(phase, chunk));
      if (is_first)
        known->second = evaluates ? Names{.first = piece_name(local_[evaluate_].graph.name, chunk, phase)}
                                  : names_of(chunk, phase);
      const std::string& name = is_first ? known->second.first : known->second.next;
      if (!name.empty()) actions.push_back(Action::run(name, microbatch, static_cast<int>(microbatch)));
    }
  }
  for (size_t c = 0; c < staged.crossings.size(); ++c) {
    if (order.slots[c] > 0) stage.slots[staged.crossings[c].state] = order.slots[c];
  }
}

// Gradients that others need go out, those of others come in.
void Stages::add_update(Stage& stage, int number, const std::vector<int>& peers) const {
  for (size_t s = 0; s < updates_.size(); ++s) {
    for (const StagedUpdate::Borrowed& borrowed : updates_[s].borrowed) {
      if (borrowed.from == number) stage.step.push_back(Action::send(borrowed.state, peers[s]));
      if (static_cast<int>(s) == number)
        stage.step.push_back(Action::receive(borrowed.state, peers[borrowed.from]));
    }
  }
  stage.step.push_back(Action::run(local_[update_].graph.name));
  stage.parts.push_back({{updates_[number].graph, SegmentKind::kUpdate}, update_});
}

Stage Stages::stage(int number, const std::vector<int>& peers) const {
  Stage stage;
  add_actions(stage.step, stage, number, peers, pipeline_, staged_.front());
  add_actions(stage.evaluation, stage, number, peers, evaluation_, staged_[evaluate_]);
  std::set<std::string> run;
  for (const auto* list : {&stage.step, &stage.evaluation}) {
    for (const Action& action : *list) {
      if (action.kind == Action::Kind::kRun) run.insert(action.what);
    }
  }
  for (size_t s = 0; s < staged_.size(); ++s) {
    for (const Piece& piece : staged_[s].pieces) {
      if (!run.contains(piece.graph.name)) continue;
      const bool second = is_second_holder(piece.chunk, number);
      stage.parts.push_back({{second ? for_second_holder(piece.graph) : piece.graph, local_[s].kind}, s});
    }
  }
  add_update(stage, number, peers);
  return stage;
}

}  // namespace trireme
