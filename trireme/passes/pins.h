// From a plan to the layouts that a graph of a training step starts from.
#pragma once

#include "trireme/passes/spread.h"
#include "trireme/plan/plan.h"

namespace trireme {

// What a segment of a step does with states decides how it wants them: the update takes weights as they lie
// at rest, the forward and backward parts take them whole.
enum class SegmentKind { kForwardBackward, kUpdate, kEvaluate };
SegmentKind segment_kind(const Graph& graph);  // by its name: update, evaluate, or one of the others

// Whether a value is an input with a row for each sample.
bool is_batch(const Value& value);

// Gradients of several microbatches are kept as addends and added up over ranks once a step, in the update;
// those of one are added up as they are made.
enum class Microbatches { kOne, kSeveral };

// `graph` has whole tensors. States are told apart by the attribute `role`: parameter, gradient, optimizer;
// others are replicated. `of` names the parameter that a state goes with; `tensor_dim`, `tensor_unit` and
// `tensor_blocks` say how tensor parallelism splits it, `tensor_sequence_dim` which dim of it runs along the
// sequence. Inputs with dims are batches, but for `rng`, and are split along the first. Throws Error where
// something is too small to be split so.
Pins pins_of(const Plan& plan, const Graph& graph, SegmentKind kind, Microbatches microbatches);

// The axes over which batches are split, into how many parts that makes, and the rows of one that a rank takes.
std::vector<int> batch_axes(const Plan& plan);
int64_t batch_parts(const Plan& plan);
Part batch_rows(const Plan& plan, int64_t rows, int rank);

}  // namespace trireme
