// Segment -> pins -> expand -> spread (once) -> partition -> fuse -> bucket -> memory (for each rank).
#include "trireme/program/build.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/ops/table.h"
#include "trireme/passes/bucket.h"
#include "trireme/passes/expand.h"
#include "trireme/passes/fuse.h"
#include "trireme/passes/plan_check.h"
#include "trireme/passes/prune.h"

namespace trireme {
namespace {

// Of a segment's batch; 0 where it takes none.
int64_t rows_of(const Graph& graph) {
  for (const Value& value : graph.values) {
    if (value.role == Role::kBatch) return value.type.shape[0];
  }
  return 0;
}

bool is_own(const StepSegment& segment) {
  return segment.rows == Rows::kOfOneRank;
}

}  // namespace

Graph optimized(const Graph& graph) {
  return prune(fuse(graph, ops()));
}

ProgramBuilder::ProgramBuilder(std::vector<StepSegment> whole, const Plan& plan, int64_t microbatches)
    : whole_(std::move(whole)), plan_(plan) {
  if (std::ranges::none_of(whole_, is_own)) check_plan(plan_, whole_);
  for (const StepSegment& segment : whole_) {
    std::optional<Common>& common = common_.emplace_back();
    if (plan_.mesh.ranks() == 1 || is_own(segment)) continue;
    Pins pins = pins_of(plan_, segment.graph, segment.kind,
                        microbatches > 1 ? Microbatches::kSeveral : Microbatches::kOne);
    Graph graph = expand(segment.graph, plan_.mesh, pins, ops());
    Spread spread = trireme::spread(graph, plan_.mesh, pins);
    Graph leader = optimized(partition(graph, plan_.mesh, pins, spread, /*rank=*/0, ops()));
    common = Common{std::move(graph), std::move(pins), std::move(spread), std::move(leader)};
  }
}

ProgramBuilder::RankPart ProgramBuilder::part(int rank) const {
  RankPart result;
  for (size_t s = 0; s < whole_.size(); ++s) {
    const StepSegment& segment = whole_[s];
    NamedLayouts& layouts = result.layouts.emplace_back();
    if (!common_[s]) {
      result.segments.emplace_back(optimized(segment.graph), segment.kind, segment.rows);
      continue;
    }
    const auto& [graph, pins, spread, leader] = *common_[s];
    const Graph local = optimized(partition(graph, plan_.mesh, pins, spread, rank, ops(), &layouts));
    result.segments.emplace_back(bucket(local, leader, ops()), segment.kind, segment.rows);
    for (const Value& value : graph.values) {
      if (value.kind != Value::Kind::kState) continue;
      const Layout rest = state_layout(pins, value, plan_.mesh).rest;
      result.states[value.name] = state_part(value.type.shape, rest, plan_.mesh, rank);
    }
  }
  return result;
}

// All segments of a list that take a batch take as many rows of it.
ActionList ProgramBuilder::list(std::string name, const std::vector<Action>& actions, int64_t microbatches,
                                int rank) const {
  ActionList list{std::move(name), actions, 0, {}, microbatches};
  for (const Action& action : actions) {
    if (action.kind != Action::Kind::kRun) continue;
    const auto segment =
        std::ranges::find(whole_, action.what, [](const StepSegment& s) { return s.graph.name; });
    TRIREME_CHECK(segment != whole_.end());
    const int64_t rows = rows_of(segment->graph);
    if (rows == 0) continue;
    TRIREME_CHECK((list.rows == 0 || list.rows == rows));
    list.rows = rows;
    list.own = is_own(*segment) ? Part{0, rows} : batch_rows(plan_, rows, rank);
  }
  return list;
}

Program ProgramBuilder::assemble(RankPart local, int rank, const Schedule& schedule,
                                 const WorkspaceQuery& workspace) const {
  Program program = build_program(std::move(local.segments), workspace, local.states);
  program.mesh = plan_.mesh;
  program.rank = rank;
  program.sums = schedule.sums;
  for (size_t s = 0; s < whole_.size(); ++s) program.segments[s].layouts = std::move(local.layouts[s]);
  program.lists.push_back(list("step", schedule.step, schedule.microbatches, rank));
  program.lists.push_back(list("evaluate", schedule.evaluation, schedule.microbatches, rank));
  return program;
}

}  // namespace trireme
