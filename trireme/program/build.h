// From the segments of a step on whole tensors, and a plan, to each rank's Program. What is the same for all
// ranks (whether the plan can work, how every value lies) is decided once; a rank's own part is then cheap,
// so that a simulator or a planner may ask for many.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/passes/pins.h"
#include "trireme/plan/plan.h"
#include "trireme/program/program.h"

namespace trireme {

// What every graph goes through before it becomes part of a program: fused, and without what nobody needs.
Graph optimized(const Graph& graph);

class ProgramBuilder {
 public:
  // `microbatches` of a step. Throws Error when the plan can not work for these segments
  // (passes/plan_check.h).
  ProgramBuilder(std::vector<StepSegment> whole, const Plan& plan, int64_t microbatches);

  // One rank's segments, fused, and with collectives taken apart in time; what it has of each state; and how
  // values lie, by segment.
  struct RankPart {
    std::vector<StepSegment> segments;
    StateParts states;
    std::vector<NamedLayouts> layouts;
  };
  RankPart part(int rank) const;

  Program assemble(RankPart part, int rank, const Schedule& schedule, const WorkspaceQuery& workspace) const;

  Program build(int rank, const Schedule& schedule, const WorkspaceQuery& workspace) const {
    return assemble(part(rank), rank, schedule, workspace);
  }

 private:
  // A segment that is spread over the ranks, as far as all ranks agree.
  struct Common {
    Graph graph;  // expanded
    Pins pins;
    Spread spread;
    Graph leader;  // rank 0's part, by which all ranks decide what is one bucket
  };

  ActionList list(std::string name, const std::vector<Action>& actions, int64_t microbatches, int rank) const;

  std::vector<StepSegment> whole_;
  Plan plan_;
  std::vector<std::optional<Common>> common_;  // per segment; none where each rank has it whole
};

}  // namespace trireme
