// From the segments of a step on whole tensors, and a plan, to each rank's Program. What is the same for all
// ranks (whether the plan can work, how every value lies) is decided once; a rank's own part is then cheap,
// so that a simulator or a planner may ask for many. Of a pipeline the first rank that is asked for does what
// its peers in other stages need too. Not for several threads at once.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/exchange/agreement_record.h"
#include "trireme/passes/cut.h"
#include "trireme/passes/exchange.h"
#include "trireme/passes/offload.h"
#include "trireme/passes/pins.h"
#include "trireme/plan/plan.h"
#include "trireme/program/program.h"
#include "trireme/schedule/pipeline.h"

namespace trireme {

// What every graph goes through before it becomes part of a program: fused, and without what nobody needs.
Graph optimized(const Graph& graph);

// The segments of a step, and how they are spread over the ranks of a stage. Plans that differ in what is
// made again, in the schedule and in how messages and buckets travel have it in common. Never changes, so
// several builders may share it.
class SpreadStep {
 public:
  // `microbatches` of a step. `cut` is where a plan with an axis pipe cuts the model. What of `before` has
  // the same segments, over ranks of a stage that share them alike, is not spread again, however the model is
  // cut. Throws Error when the plan can not work for these segments (passes/plan_check.h).
  SpreadStep(std::vector<StepSegment> whole, const Plan& plan, int64_t microbatches, Cut cut,
             std::span<const std::shared_ptr<const SpreadStep>> before = {});

  // Whether a step of so many microbatches under another plan is spread as this one is, with the same cut.
  bool serves(const Plan& plan, int64_t microbatches) const;

  struct Segment {
    Graph graph;  // expanded
    Pins pins;
    Spread spread;
    Graph leader;  // rank 0's part, by which all decide what is one bucket
    NamedLayouts leader_layouts;
  };
  using Segments = std::vector<std::optional<Segment>>;
  const Segments& segments() const { return *segments_; }  // of `whole`; none where each rank has it whole

  std::vector<StepSegment> whole;
  Cut cut;

 private:
  Segments spread_in_stage(const Plan& plan, int64_t microbatches) const;

  int64_t microbatches_;
  // What of the plan decides how it is spread, and how among the ranks of a stage; empty where no other plan
  // is served.
  std::string by_, by_in_stage_;
  std::shared_ptr<const Segments> segments_;
};

class ProgramBuilder {
 public:
  ProgramBuilder(std::vector<StepSegment> whole, const Plan& plan, int64_t microbatches, const Cut& cut = {})
      : ProgramBuilder(std::make_shared<const SpreadStep>(std::move(whole), plan, microbatches, cut), plan,
                       microbatches) {}
  // `step` serves the plan. Throws Error when the plan can not work.
  ProgramBuilder(std::shared_ptr<const SpreadStep> step, const Plan& plan, int64_t microbatches);

  // One rank's segments, fused, and with collectives taken apart in time; what it has of each state; how
  // values lie, by segment; and what it does in a step and in an evaluation.
  struct RankPart {
    std::vector<StepSegment> segments;
    StateParts states;
    StateSlots slots;
    std::vector<Value> remote_states;  // see Program
    std::vector<NamedLayouts> layouts;
    std::vector<Action> step, evaluation, fill;  // see Stage
    FileStateNames in_files;
    // By which ranks that go on by themselves agree, or a server and its workers; and the updates of early
    // steps.
    std::vector<StepSegment> agreeing;
    std::vector<ActionList> lists;
  };
  RankPart part(int rank, const Schedule& schedule) const;

  Program assemble(RankPart part, int rank, const Schedule& schedule, const WorkspaceQuery& workspace) const;

  // A pipeline has actions of its own instead of the schedule's.
  Program build(int rank, const Schedule& schedule, const WorkspaceQuery& workspace) const {
    return assemble(part(rank, schedule), rank, schedule, workspace);
  }

 private:
  // What all ranks agree on of a segment that is spread over them.
  struct Common {
    Graph leader = {};                    // of SpreadStep, fused; none of a pipeline, where it is cut first
    std::map<int64_t, Graph> early = {};  // of an update: those of early steps, of rank 0, by their last step
  };

  Graph bucketed(const Graph& graph, const Graph& leader) const;  // passes/bucket.h, as the plan has them
  ActionList with_rows(ActionList list, SegmentKind kind, int64_t microbatches, int rank) const;
  struct InStages;  // the segments of one rank of a stage, cut into those of all stages
  RankPart before_cut(int in_stage, const Schedule& schedule) const;
  const InStages& in_stages(int in_stage) const;
  RankPart stage_part(int rank) const;
  // In parts, whose optimizer's states rest in files; neither it nor the leader's is fused yet.
  void add_update(RankPart& part, const StepSegment& update, const Graph& leader, const NamedLayouts& layouts,
                  const ChunksInFiles& chunks) const;
  void add_early_updates(RankPart& part, const Graph& update, size_t segment, int rank,
                         KeptStates& kept) const;
  // Of a rank of the job, whose own update this is, and that of its stage.
  AgreedSteps agreed_steps(const Graph& update, int rank, const StateStages& stages = {}) const;
  AgreedSteps served_steps(std::span<const Graph> updates, int rank) const;
  void add_agreed(RankPart& part, AgreedSteps& steps, int rank) const;
  KeptStates lying() const;
  std::vector<Graph> updates() const;
  RankPart server_part(int number, const Schedule& schedule) const;
  void note_remote_states(RankPart& part) const;
  void keep_gradients_alone(RankPart& part, int rank) const;

  std::shared_ptr<const SpreadStep> spread_;
  const std::vector<StepSegment>& whole_;  // of it
  Plan plan_;
  Plan stage_plan_;                   // of the ranks of one stage; the same plan where there is no pipeline
  std::optional<Pipeline> pipeline_;  // of one stage where offload alone cuts the model
  const AgreementRecord& record_;
  bool agrees_;                 // between steps, by the record's: there are several replicas, or servers
  StateStages stages_;          // of parameters, where methods of exchange must not mix stages
  std::vector<Common> common_;  // per segment
  std::vector<std::vector<bool>> again_;  // per segment, of a rank's graph: the values to make again
  // Of a pipeline: of the ranks that lead their stages, and of the others that were asked for last.
  mutable std::shared_ptr<const InStages> leading_, latest_;
};

}  // namespace trireme
