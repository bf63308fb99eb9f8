// Which states rest in files together, and which staging slots they take.
#pragma once

#include "trireme/passes/offload.h"
#include "trireme/plan/plan.h"
#include "trireme/program/program.h"

namespace trireme {

// A group for what each part of an update has of the optimizer; where the plan says so, one for the weights
// of each chunk, and one for its gradients, with what is kept of them. Groups of a kind take the kind's slots
// in turn, so that a segment never needs two groups in one slot.
FileStateNames file_groups(const Plan::Offload& offload, const Graph& update,
                           const std::vector<UpdatePart>& parts, const ChunksInFiles& chunks);

}  // namespace trireme
