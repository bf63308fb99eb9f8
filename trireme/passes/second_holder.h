// Where two stages of a pipeline hold the same chunk (chimera), each adds up the gradients of the microbatches
// that it computes. What the second one adds up has a name of its own, and the update takes the sum; from
// there on the two are addends like those of a weight that two stages share (stage_update.h).
#pragma once

#include <set>
#include <string>

#include "trireme/ir/graph.h"

namespace trireme {

std::string second_name(std::string_view gradient);  // "grad.w~second"

// A chunk's piece for its second holder.
Graph for_second_holder(Graph piece);

// The update, which reads the sum of both wherever it read one of `gradients`.
Graph with_sums_of_holders(const Graph& update, const std::set<std::string, std::less<>>& gradients,
                           const OpTable& ops);

}  // namespace trireme
