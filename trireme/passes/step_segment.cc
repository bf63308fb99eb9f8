// Names of the kinds of segments, for the text form of programs.
#include "trireme/passes/step_segment.h"

#include "trireme/base/enum_name.h"

namespace trireme {
namespace {

constexpr EnumNames<3> kKinds = {"forward_backward", "update", "evaluate"};

}  // namespace

std::string_view name(SegmentKind kind) {
  return kKinds[static_cast<size_t>(kind)];
}

std::optional<SegmentKind> parse_segment_kind(std::string_view text) {
  return enum_named<SegmentKind>(kKinds, text);
}

}  // namespace trireme
