// From a plan to the layouts that a graph of a training step starts from.
#pragma once

#include "trireme/passes/spread.h"
#include "trireme/plan/plan.h"
#include "trireme/schedule/step_segment.h"

namespace trireme {

// Gradients of several microbatches are kept as addends and added up over ranks once a step, in the update;
// those of one are added up as they are made. What replicas agree on otherwise than by dense sums along an
// axis `replica` is kept as addends over that axis in any case.
enum class Microbatches { kOne, kSeveral };

// `graph` has whole tensors. States lie by their roles; others than parameters, gradients and those of the
// optimizer are replicated. `of` names the parameter that a state goes with; `tensor_dim`, `tensor_unit` and
// `tensor_blocks` say how tensor parallelism splits it, `tensor_sequence_dim` which dim of it runs along the
// sequence; `addends` that a gradient is the sum of several states. Batches are split along the first dim.
// Throws Error where something is too small to be split so.
Pins pins_of(const Plan& plan, const Graph& graph, SegmentKind kind, Microbatches microbatches);

// The axes over which batches are split, into how many parts that makes, and the rows of one that a rank
// takes.
std::vector<int> batch_axes(const Plan& plan);
int64_t batch_parts(const Plan& plan);
// Whether there are several replicas, and other axes than data and replica split the batch too.
bool others_share_batch(const Plan& plan);
Part batch_rows(const Plan& plan, int64_t rows, int rank);

}  // namespace trireme
