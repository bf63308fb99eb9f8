// The graphs of a training step as one rank runs them under a plan.
#pragma once

#include <vector>

#include "trireme/passes/partition.h"
#include "trireme/plan/plan.h"
#include "trireme/program/program.h"

namespace trireme {

struct RankGraphs {
  std::vector<Graph> graphs;          // fused, in the order given
  StateParts parts;                   // what this rank has of each state
  std::vector<NamedLayouts> layouts;  // of each graph's values; empty where nothing is split
};

// What the forward and backward parts in `whole` work on: all rows of a microbatch, which the plan splits; or
// rows of one rank's own, a shard (shards.h), so that there is nothing to split.
enum class Rows { kOfAllRanks, kOfOneRank };

// `whole`: the segments of a step (train/step.h) on whole tensors.
RankGraphs rank_graphs(const std::vector<Graph>& whole, const Plan& plan, int rank,
                       Rows rows = Rows::kOfAllRanks);

}  // namespace trireme
