// From gathering to passing on. An op that reads parts of other ranks through an all_gather (keys and values
// of attention) gets them one after another instead, each from the rank before, while it computes with the
// one at hand; what it would add up over ranks at the end travels the same way:
//
//   %k = all_gather(%own)  %o = attention(%q, %k)
//   ->  %o1 = attention(%q, %own)  %k2 = shift(%own)  %o2 = attention(%q, %k2)  %o = attention_merge(%o1,
//   %o2)  …
//
// The forms are written in the records (OpRecord::ring). Runs after partition, before recompute. As many
// bytes are sent as before, of f32 where parts are added up, but no rank ever has the whole.
#pragma once

#include <string_view>

#include "trireme/ir/graph.h"
#include "trireme/mesh/mesh.h"

namespace trireme {

// `graph` is that of `rank`. Throws Error where an op with a ring form reads something else that was gathered
// along the axis, or what it adds up over the axis is not left in the parts that the ring has.
Graph ring(const Graph& graph, const Mesh& mesh, std::string_view axis, int rank, const OpTable& ops);

}  // namespace trireme
