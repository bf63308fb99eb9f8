// Names of the kinds of segments, for the text form of programs.
#include "trireme/schedule/step_segment.h"

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

}  // namespace trireme
