// See trace_kind.h.
#include "trireme/program/trace_kind.h"

#include "trireme/passes/stage.h"

namespace trireme {

TraceEvent::Kind trace_kind(const Segment& segment) {
  if (segment.kind == SegmentKind::kUpdate) return TraceEvent::Kind::kUpdate;
  if (segment.kind == SegmentKind::kEvaluate) return TraceEvent::Kind::kForward;
  const std::optional<Phase> phase = phase_of_piece(segment.graph.name);
  if (phase == Phase::kForward) return TraceEvent::Kind::kForward;
  if (phase == Phase::kBackward) return TraceEvent::Kind::kBackward;
  if (phase == Phase::kWeight) return TraceEvent::Kind::kWeight;
  return TraceEvent::Kind::kGradients;
}

}  // namespace trireme
