// The backward part of a step's graphs: gradients of all parameters, and the states in which they, the loss
// and its count are added up over microbatches.
#pragma once

#include <vector>

#include "trireme/ir/graph.h"
#include "trireme/passes/cut.h"
#include "trireme/train/options.h"

namespace trireme {

// Those that are trained.
std::vector<ValueId> parameters_of(const Graph& graph);

// Whether a microbatch begins the sums, or adds to what the ones before have left.
enum class Accumulate { kReplace, kAdd };

// Adds the backward part of a forward graph whose outputs are loss and count, and what else a step tallies
// (optim/tallies.h); stores gradients and all of these in states. What the forward part renews itself goes to
// states of the role `pending`, so that a step that fails later leaves no trace. Where the model is cut, each
// chunk has a gradient of its own of a weight that several of them read.
Graph with_gradients(Graph forward, Accumulate accumulate, Role pending, const TrainOptions& train,
                     const Cut& cut);

}  // namespace trireme
