// Memory and sizes of transformers in closed form, as published: what Programs are held against, and what is
// known of a model before one is built.
#pragma once

#include <cstdint>

namespace trireme::sim {

// What data parallelism shares of model states (ZeRO): nothing, then the optimizer's, gradients, weights.
enum class StateSharing { kNone, kOptimizer, kGradients, kWeights };

// Bytes of a parameter's weight, gradient and optimizer states.
struct StateBytes {
  double weight = 2, gradient = 2, optimizer = 12;
};

// Model states of one rank of `ranks`.
double model_state_bytes(double parameters, StateSharing sharing, int64_t ranks,
                         const StateBytes& bytes = {});

struct Transformer {
  int64_t layers = 1, hidden = 1, heads = 1, vocab = 0, seq = 1;
};

// 12 l h² + 13 l h + (V + s) h: a tied head and learned positions among them, the last norm not.
double parameters_of(const Transformer& model);

// FLOPs of a step of `batch` sequences with all activations made again: 96 B s l h² (1 + s / (6 h) + V / (16
// l h)).
double flops_with_recomputation(const Transformer& model, int64_t batch);

// What one layer keeps of a microbatch for its backward part, 16-bit activations, on each of `tensor` ranks;
// attention keeps its scores unless they are made again.
enum class Kept { kAll, kAllButAttention, kInputs };
struct ActivationPlan {
  int64_t microbatch = 1, tensor = 1;
  enum class Sequence { kWhole, kSplit } sequence = Sequence::kWhole;  // between the parts that tensor splits
  Kept kept = Kept::kAll;
};
double layer_activation_bytes(const Transformer& model, const ActivationPlan& plan);

// Of the first stage of a 1F1B pipeline: as many layers' worth as the model has, and with v chunks a stage
// 1 + (p − 1) / (p v) times that.
double first_stage_activation_bytes(const Transformer& model, const ActivationPlan& plan, int64_t stages,
                                    int64_t chunks_per_stage = 1);

}  // namespace trireme::sim
