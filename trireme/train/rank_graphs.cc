// Segment -> pins -> expand -> spread -> partition -> fuse -> bucket.
#include "trireme/train/rank_graphs.h"

#include <algorithm>

#include "trireme/ops/table.h"
#include "trireme/passes/bucket.h"
#include "trireme/passes/expand.h"
#include "trireme/passes/pins.h"
#include "trireme/passes/plan_check.h"
#include "trireme/train/step.h"

namespace trireme {
RankGraphs rank_graphs(const std::vector<Graph>& whole, const Plan& plan, int rank, Rows rows) {
  if (rows == Rows::kOfAllRanks) check_plan(plan, whole);
  RankGraphs result;
  // What is added to, by another microbatch or shard, is added up over the ranks in the update.
  const auto adds = [](const Graph& graph) { return graph.name == "next"; };
  const Microbatches microbatches = rows == Rows::kOfOneRank || std::ranges::any_of(whole, adds)
                                        ? Microbatches::kSeveral
                                        : Microbatches::kOne;
  for (const Graph& segment : whole) {
    NamedLayouts& layouts = result.layouts.emplace_back();
    const bool own = rows == Rows::kOfOneRank && segment_kind(segment) == SegmentKind::kForwardBackward;
    if (plan.mesh.ranks() == 1 || own) {
      result.graphs.push_back(optimized(segment));
      continue;
    }
    const Pins pins = pins_of(plan, segment, segment_kind(segment), microbatches);
    const Graph graph = expand(segment, plan.mesh, pins, ops());
    const Spread spread = trireme::spread(graph, plan.mesh, pins);
    const Graph leader = optimized(partition(graph, plan.mesh, pins, spread, /*rank=*/0, ops()));
    const Graph local = optimized(partition(graph, plan.mesh, pins, spread, rank, ops(), &layouts));
    result.graphs.push_back(bucket(local, leader, ops()));
    for (const Value& value : graph.values) {
      if (value.kind != Value::Kind::kState) continue;
      const Layout rest = state_layout(pins, value, plan.mesh).rest;
      StatePart& part = result.parts[value.name];
      part = {value.type.shape, local_pieces(value.type.shape, rest, plan.mesh, rank), {}, {}};
      for (size_t a = 0; a < rest.size(); ++a) {
        if (rest[a].kind == Placement::Kind::kSplit) part.axes.push_back(plan.mesh.axes()[a].name);
        if (rest[a].kind == Placement::Kind::kSum) part.sums.push_back(plan.mesh.axes()[a].name);
      }
    }
  }
  return result;
}

}  // namespace trireme
