// How much of a training step could be done at once: the work and the depth of its ops and passes, how large
// the pieces are, where a device's roofline puts them, and how evenly a plan deals them out.
//
// Work is FLOPs. The depth of a node is how many operations follow one another whatever the number of
// processors: 1 where each result has its own operands, log2 n where n values are put together (a matmul's
// inner extent; a convolution's channels times the pixels of its kernel). That of a part of a step is the
// longest path through its nodes. Work over depth is the average parallelism: more processors than that can
// not all be busy.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/mesh/cluster.h"
#include "trireme/program/program.h"
#include "trireme/schedule/step_segment.h"

namespace trireme::sim {

// What is made again for gradients is of the backward part.
enum class StepPart { kForward, kBackward, kUpdate };
std::string_view name(StepPart part);
StepPart part_of(const Graph& graph, const Node& node, SegmentKind kind);

double depth_of(const Graph& graph, const Node& node);

// The nodes of one op in a part, or all nodes of a part.
struct Parallelism {
  StepPart part = StepPart::kForward;
  std::string op;  // "": all
  int nodes = 0;
  Cost cost;
  double depth = 0;  // of an op: its nodes one after another; of a part: the longest path

  double average() const { return depth > 0 ? cost.flops / depth : 0; }
  double flops_per_node() const { return nodes > 0 ? cost.flops / nodes : 0; }
  double flops_per_byte() const { return cost.bytes > 0 ? cost.flops / cost.bytes : 0; }
};
// All ops of all parts of these segments, most work first within a part, each part's sum before them.
// Collectives compute nothing, and an evaluation is no part of a step: both are left out.
std::vector<Parallelism> parallelism_of(std::span<const StepSegment> segments);

// Where a device's roofline puts them.
struct Placement {
  double seconds = 0;
  // Where most of it goes: arithmetic, memory traffic, or launching nodes that are too small.
  enum class Limit { kCompute, kMemory, kLaunch } limit = Limit::kCompute;
};
std::string_view name(Placement::Limit limit);
// In the order of parallelism_of().
std::vector<Placement> placements_of(std::span<const StepSegment> segments, const DeviceClass& device);

// FLOPs of a step over the ranks of a plan, by part and op ("": all of the part).
struct Load {
  double sum = 0, most = 0;
  int ranks = 0;

  // How much longer than on average the rank with most has to work, as a share; 0: all have the same.
  double imbalance() const { return sum > 0 ? most * ranks / sum - 1 : 0; }
};
using Loads = std::map<std::pair<StepPart, std::string>, Load>;
Loads loads_of(std::span<const Program> programs);

}  // namespace trireme::sim
