// The graphs of a training step, made from a model and its options:
//
//   first      one microbatch: forward, backward; gradients, loss and count replace what was accumulated
//   next       the same, added to what was accumulated; only where a step has more than one microbatch
//   update     from accumulated gradients to new weights (optim/update.h); until it has run, weights, moments
//              and running statistics are those of the step before, so a step can be given up at any point
//   evaluate   forward only; outputs loss, count and logits
//
// Losses and gradients are sums over targets with their count beside them, and are divided once, in the
// update: so k microbatches equal one big batch exactly, also when they are uneven. Where a rank computes
// whole microbatches (virtual shards, schedule/shards.cc), there are the segments `left` and `merge1`… beside
// `first`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/models/model.h"
#include "trireme/passes/cut.h"
#include "trireme/plan/plan.h"
#include "trireme/program/program.h"
#include "trireme/schedule/schedule.h"
#include "trireme/schedule/step_segment.h"
#include "trireme/train/options.h"

namespace trireme {

struct StepShape {
  int64_t rows = 0;  // samples in one microbatch; with train.shards in a whole batch
  // Of one sample: [seq], [source_seq, seq] or [channels, height, width]; InputKind::kOwn: not needed.
  Shape sample = {};
};

// The order of a rank's step that the options ask for.
Schedule schedule_of(const TrainOptions& train, const Plan& plan = {}, int rank = 0);

struct StepGraphs {
  std::vector<StepSegment> segments;  // in the order above
  std::vector<Value> parameters;      // the trained states
  Cut cut;                            // of the model, where the plan has a pipeline
};

// On whole tensors and not yet fused: an op that was fused can be split in fewer ways. The plan is asked for
// a pipeline alone: of a weight that several of its chunks read, each adds up a gradient of its own.
StepGraphs step_graphs(const Model& model, const TrainOptions& train, const OptimOptions& optim,
                       const StepShape& shape, const Schedule& schedule, const Plan& plan = {});

// The parts that a pipeline may cut the model between.
Units model_units(const Model& model, const TrainOptions& train, const StepShape& shape);

// Forward only, of a model that has logits: its input, output logits.
Graph forward_graph(const Model& model, const StepShape& shape, DType precision);

// For generating text, in f32 (models/network.h). Of a model that decodes, for each number of tokens a
// segment `read<n>`, which keeps the keys and values of so many tokens of one text; and for each number of
// texts a segment `next<n>`, which reads one more token of each and gives logits [n, 1, vocab] for what
// follows. Of other models, for each number of texts a segment `window<n>`: the same logits, from windows of
// model.seq tokens. On whole tensors and not yet fused.
struct GeneratingShape {
  int64_t lines = 1;                 // texts of which keys and values are kept
  std::vector<int64_t> texts = {1};  // that go on together
  std::vector<int64_t> tokens = {};  // of one text that are read together
};
std::vector<StepSegment> generating_graphs(const Model& model, const GeneratingShape& shape = {});

// FLOPs that the model asks for in one step, as model FLOPs utilisation counts them: the products of forward
// and backward (ops/products.h), each once, whatever ranks repeat of them.
double model_flops(const Model& model, const TrainOptions& train, const StepShape& shape);

// Of the whole model's parameters, those that are trained.
int64_t trained_parameters(const Program& program);

// The number format of train.precision.
DType precision_of(const TrainOptions& train);
// The 16-bit format that weights are kept in, beside f32 masters (train.weight_precision); nothing where they
// are f32 themselves. Throws Error where precisions do not go together.
std::optional<DType> half_weights_of(const TrainOptions& train);

}  // namespace trireme
