// A stage of an asynchronous pipeline computes microbatches with weights that were updated since. It keeps
// copies of them: a piece that reads older weights reads those, and a segment of its own makes the copies
// before the update.
#pragma once

#include <string>
#include <vector>

#include "trireme/ir/graph.h"

namespace trireme {

std::string version_name(std::string_view parameter);  // "version.h.0.attn.weight"

// The same piece on kept weights.
Graph with_kept_weights(Graph piece);

// Copies what the pieces read of kept weights; one for all, called "keep".
Graph keeping_graph(const std::vector<const Graph*>& pieces, const OpTable& ops);

}  // namespace trireme
