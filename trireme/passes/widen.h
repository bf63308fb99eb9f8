// The same graph held in f32: every 16-bit value becomes f32, and casts stay as nodes that round nothing.
// What such a graph computes differs from another order of the same work by the rounding of f32 alone, so
// that its structure can be judged to the last bits (train/parity). Runs last: nothing is fused, split or
// left out because of it.
#pragma once

#include "trireme/ir/graph.h"

namespace trireme {

Graph widen(const Graph& graph);

}  // namespace trireme
