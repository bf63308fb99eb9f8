// The update part of a step's graphs: one for the whole model, or one for each chunk of an asynchronous
// pipeline, or one for each server.
#pragma once

#include <vector>

#include "trireme/ir/graph.h"
#include "trireme/optim/options.h"
#include "trireme/optim/tallies.h"
#include "trireme/passes/cut.h"
#include "trireme/plan/plan.h"
#include "trireme/schedule/schedule.h"
#include "trireme/train/options.h"

namespace trireme {

// The states that the forward part itself renews: running statistics.
std::vector<Value> renewed_states(const Graph& forward);

// What a step adds up beside its loss, and the buffers that its update makes of that. `first` has its
// backward part.
Tallies tallies_of(const Graph& first);

// `forward` is the forward part of the step, `first` the same with its backward part. Throws Error if a chunk
// or a server would have nothing to update.
std::vector<Graph> step_updates(const Graph& forward, const Graph& first, const Cut& cut,
                                const Schedule& schedule, const Plan& plan, const OptimOptions& optim,
                                const TrainOptions& train);

}  // namespace trireme
