// What a pipeline makes of one rank's segments: the pieces that a stage has (passes/stage.h), its actions
// with the messages between stages, how many slots each stash needs, and which stages have which states.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "trireme/passes/stage.h"
#include "trireme/passes/stage_update.h"
#include "trireme/program/program.h"
#include "trireme/program/stage_order.h"
#include "trireme/schedule/pipeline.h"
#include "trireme/schedule/step_segment.h"

namespace trireme {

// One stage's part of a step.
struct Stage {
  struct Part {
    StepSegment segment;
    size_t of = 0;  // the number of the segment that it is a piece of
  };
  std::vector<Part> parts;
  std::vector<Action> step, evaluation;
  std::vector<Action> fill;  // of an asynchronous pipeline, before the first step
  StateSlots slots;
};

// The stages that read each parameter, in the first segment of a step.
StateStages stages_of_parameters(const Graph& first, const Cut& cut, const Pipeline& pipeline);

class Stages {
 public:
  // Where the segments are from.
  struct Place {
    const Mesh& mesh;                          // without the axis pipe
    int in_stage = 0;                          // the rank there
    const std::vector<NamedLayouts>& layouts;  // of the segments' values
    Plan::Boundaries boundaries = Plan::Boundaries::kWhole;
  };
  // `local` are the segments of a step on one rank, partitioned and not yet fused: first (at the front), next
  // where a step has several microbatches, update and evaluate. Ranks that differ along the axis pipe alone
  // have the same. Stages of an asynchronous pipeline do not wait for one another's updates: there is one for
  // each chunk, in their order.
  Stages(const std::vector<StepSegment>& local, const Pipeline& pipeline, const Cut& cut, const Place& place);

  // `peers` are the ranks of all stages.
  Stage stage(int number, const std::vector<int>& peers) const;
  const StateStages& state_stages() const { return state_stages_; }
  // Of each parameter the chunk that reads it, where no other does.
  std::map<std::string, int, std::less<>> parameter_chunks() const;
  // Gradients of chunks that two stages hold; each adds up its own (passes/second_holder.h).
  const std::set<std::string, std::less<>>& replicated_gradients() const { return replicated_gradients_; }

 private:
  const Piece* find(size_t segment, int chunk, Phase phase) const;
  // The pieces for the first microbatch of a stage and for the next.
  struct Names {
    std::string first = {}, next = {};
  };
  Names names_of(int chunk, Phase phase) const;
  // Of the stages that hold a chunk, ascending, whether it is the second.
  bool is_second_holder(int chunk, int number) const;
  void add_state_stages();
  std::vector<StagedUpdate> own_updates() const;
  // A stage's place among the ranks of all.
  struct Seat {
    int number;
    const std::vector<int>& peers;
  };
  using Items = std::vector<StageOrder::Item>;
  std::vector<Action> step_actions(const Items& items, const Seat& seat) const;
  std::vector<Action> evaluation_actions(const Items& items, const Seat& seat) const;
  void add_update_actions(std::vector<Action>& actions, const Seat& seat) const;
  void add_parts(Stage& stage, int number, const StageOrder& order) const;

  const std::vector<StepSegment>& local_;
  Pipeline pipeline_;  // its own: whoever keeps the stages need not keep what they were made of
  Pipeline evaluation_;
  std::vector<Staged> staged_;  // per segment; nothing for the update
  std::optional<StageOrders> orders_, evaluation_orders_;
  std::vector<StagedUpdate> updates_;  // per stage
  std::set<std::string, std::less<>>
      replicated_gradients_;           // gradients, by the name that the first holder has them by
  std::vector<size_t> update_of_;      // per stage: which of the segments is its update
  static constexpr size_t kFirst = 0;  // of the segments, as these
  std::optional<size_t> next_;
  size_t evaluate_ = 0;
  StateStages state_stages_;
};

}  // namespace trireme
