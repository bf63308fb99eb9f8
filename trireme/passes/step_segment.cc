// Names of the kinds of segments, for the text form of programs.
#include "trireme/passes/step_segment.h"

namespace trireme {
namespace {

constexpr std::pair<SegmentKind, std::string_view> kKinds[] = {
    {SegmentKind::kForwardBackward, "forward_backward"},
    {SegmentKind::kUpdate, "update"},
    {SegmentKind::kEvaluate, "evaluate"},
};

}  // namespace

std::string_view name(SegmentKind kind) {
  return kKinds[static_cast<size_t>(kind)].second;
}

std::optional<SegmentKind> parse_segment_kind(std::string_view text) {
  for (const auto& [kind, known] : kKinds) {
    if (known == text) return kind;
  }
  return std::nullopt;
}

}  // namespace trireme
