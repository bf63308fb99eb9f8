// A segment of a training step on whole tensors, before it is spread over ranks: a graph, and what it does in
// a step.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "trireme/ir/graph.h"
#include "trireme/schedule/schedule.h"

namespace trireme {

// What a segment does with states decides how it wants them: the update takes weights as they lie at rest,
// the others take them whole.
enum class SegmentKind {
  kForwardBackward,  // of a microbatch; and what adds up what several of them left
  kUpdate,
  kEvaluate,  // forward only
};
std::string_view name(SegmentKind kind);
std::optional<SegmentKind> parse_segment_kind(std::string_view text);

// What the rows of a batch's inputs are: those of all ranks, which the plan deals out; or one rank's own, so
// that there is nothing to split.
enum class Rows { kOfAllRanks, kOfOneRank };

struct StepSegment {
  StepSegment(Graph g, SegmentKind k = SegmentKind::kForwardBackward, Rows r = Rows::kOfAllRanks)
      : graph(std::move(g)), kind(k), rows(r) {}

  Graph graph;  // its name is the segment's name
  SegmentKind kind;
  Rows rows;
};

// Of the segment that an action runs; none where it does something else, or runs none of these.
std::optional<SegmentKind> kind_of_run(std::span<const StepSegment> segments, const Action& action);

}  // namespace trireme
