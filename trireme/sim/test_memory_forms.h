// Memory and sizes of transformers in closed form, as published by Rajbhandari et al. (ZeRO), Narayanan et
// al. (PTD-P) and Korthikanti et al.: what tests hold Programs against. memory_forms_test.cc has their
// tables.
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
inline double model_state_bytes(double parameters, StateSharing sharing, int64_t ranks,
                                const StateBytes& bytes = {}) {
  const auto share = [&](StateSharing from) {
    return sharing >= from ? 1.0 / static_cast<double>(ranks) : 1.0;
  };
  return parameters *
         (bytes.weight * share(StateSharing::kWeights) + bytes.gradient * share(StateSharing::kGradients) +
          bytes.optimizer * share(StateSharing::kOptimizer));
}

struct Transformer {
  int64_t layers = 1, hidden = 1, heads = 1, vocab = 0, seq = 1;
};

// 12 l h² + 13 l h + (V + s) h: a tied head and learned positions among them, the last norm not.
inline double parameters_of(const Transformer& model) {
  const double l = static_cast<double>(model.layers), h = static_cast<double>(model.hidden);
  return 12 * l * h * h + 13 * l * h + static_cast<double>(model.vocab + model.seq) * h;
}

// FLOPs of a step of `batch` sequences with all activations made again: 96 B s l h² (1 + s / (6 h) + V / (16
// l h)).
inline double flops_with_recomputation(const Transformer& model, int64_t batch) {
  const double l = static_cast<double>(model.layers), h = static_cast<double>(model.hidden),
               s = static_cast<double>(model.seq), v = static_cast<double>(model.vocab);
  return 96 * static_cast<double>(batch) * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
}

// What one layer keeps of a microbatch for its backward part, 16-bit activations, on each of `tensor` ranks;
// attention keeps its scores unless they are made again.
enum class Kept { kAll, kAllButAttention, kInputs };
struct ActivationPlan {
  int64_t microbatch = 1, tensor = 1;
  enum class Sequence { kWhole, kSplit } sequence = Sequence::kWhole;  // between the parts that tensor splits
  Kept kept = Kept::kAll;
};
inline double layer_activation_bytes(const Transformer& model, const ActivationPlan& plan) {
  const double s = static_cast<double>(model.seq), h = static_cast<double>(model.hidden),
               a = static_cast<double>(model.heads), t = static_cast<double>(plan.tensor);
  const double sbh = s * static_cast<double>(plan.microbatch) * h;
  if (plan.kept == Kept::kInputs) return 2 * sbh;
  const double whole = plan.sequence == ActivationPlan::Sequence::kWhole ? 10 : 10 / t;
  const double scores = plan.kept == Kept::kAll ? 5 * a * s / (h * t) : 0;
  return sbh * (whole + 24 / t + scores);
}

// Of the first stage of a 1F1B pipeline: as many layers' worth as the model has, and with v chunks a stage
// 1 + (p − 1) / (p v) times that.
inline double first_stage_activation_bytes(const Transformer& model, const ActivationPlan& plan,
                                           int64_t stages, int64_t chunks_per_stage = 1) {
  const double p = static_cast<double>(stages), v = static_cast<double>(chunks_per_stage);
  const double more = chunks_per_stage > 1 ? 1 + (p - 1) / (p * v) : 1;
  return static_cast<double>(model.layers) * layer_activation_bytes(model, plan) * more;
}

}  // namespace trireme::sim
