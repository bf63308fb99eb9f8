// The graphs of a training step as one rank runs them under a plan.
#pragma once

#include <vector>

#include "trireme/plan/plan.h"
#include "trireme/program/program.h"

namespace trireme {

struct RankGraphs {
  std::vector<Graph> graphs;  // fused, in the order given
  StateParts parts;           // what this rank has of each state
};

// `whole`: the segments of a step (train/step.h) on whole tensors.
RankGraphs rank_graphs(const std::vector<Graph>& whole, const Plan& plan, int rank);

}  // namespace trireme
