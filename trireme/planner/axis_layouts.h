// How parameters of a graph best lie along one axis of a mesh, found from the index rules of its ops alone:
// every node has its legal ways to be split, what flows between nodes must lie as both ends want it or be
// moved, and intra.h chooses a way for each. Knows no technique: Megatron's columns and rows, or batches for
// convolutions and features for what follows, come out where they are the fastest.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trireme/ir/graph.h"
#include "trireme/mesh/cluster.h"
#include "trireme/mesh/layout.h"
#include "trireme/planner/intra.h"
#include "trireme/sim/collective_time.h"

namespace trireme::planner {

struct AxisQuestion {
  int ranks = 2;
  // Of batches: all ranks of the axis have the same, or each has its own part.
  enum class Rows { kSame, kShared } rows = Rows::kSame;
  // Of a step: the update is done once in so many. Gradients of shared rows are added up once, others for
  // each.
  double microbatches = 1;
};

struct AxisLayouts {
  std::vector<std::pair<std::string, Placement>> parameters;  // in the graph's order, in normal form
  // Whether what flows between nodes lies along a dim that is neither rows nor features: the sequence.
  enum class Sequence { kWhole, kSplit } sequence = Sequence::kWhole;
  double seconds = 0;        // of one microbatch: work, collectives, and its share of the update
  double least_seconds = 0;  // no choice takes less; the same unless the solver was cut short
};

// `graph` is forward and backward of a microbatch on whole tensors, as the ranks of the axis see it. `times`
// and `group_class` are of the axis's collectives.
AxisLayouts best_layouts(const Graph& graph, const AxisQuestion& question, const DeviceClass& device,
                         sim::CollectiveTimes& times, int group_class);
// The choice that it makes, in numbers alone: for tests, which solve it otherwise too.
IntraProblem axis_problem(const Graph& graph, const AxisQuestion& question, const DeviceClass& device,
                          sim::CollectiveTimes& times, int group_class);

}  // namespace trireme::planner
