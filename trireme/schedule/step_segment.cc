// Kinds of segments: their names for the text form of programs, and those that actions run.
#include "trireme/schedule/step_segment.h"

#include <algorithm>

#include "trireme/base/enum_name.h"

namespace trireme {
namespace {

constexpr EnumNames<3> kSegmentKinds = {"forward_backward", "update", "evaluate"};

}  // namespace

std::string_view name(SegmentKind kind) {
  return kSegmentKinds[static_cast<size_t>(kind)];
}

std::optional<SegmentKind> parse_segment_kind(std::string_view text) {
  return enum_named<SegmentKind>(kSegmentKinds, text);
}

std::optional<SegmentKind> kind_of_run(std::span<const StepSegment> segments, const Action& action) {
  const auto found = std::ranges::find_if(
      segments, [&](const StepSegment& segment) { return segment.graph.name == action.what; });
  if (action.kind != Action::Kind::kRun || found == segments.end()) return std::nullopt;
  return found->kind;
}

}  // namespace trireme
