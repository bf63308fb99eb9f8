// What a segment's time goes into, as traces say it.
#pragma once

#include "trireme/base/trace.h"
#include "trireme/program/program.h"

namespace trireme {

TraceEvent::Kind trace_kind(const Segment& segment);

}  // namespace trireme
