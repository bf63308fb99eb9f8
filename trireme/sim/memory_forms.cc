// See memory_forms.h. The formulas are those of Rajbhandari et al. (ZeRO), Narayanan et al. (PTD-P) and
// Korthikanti et al.; the tests have their tables.
#include "trireme/sim/memory_forms.h"

namespace trireme::sim {

double model_state_bytes(double parameters, StateSharing sharing, int64_t ranks, const StateBytes& bytes) {
  const auto share = [&](StateSharing from) {
    return sharing >= from ? 1.0 / static_cast<double>(ranks) : 1.0;
  };
  return parameters *
         (bytes.weight * share(StateSharing::kWeights) + bytes.gradient * share(StateSharing::kGradients) +
          bytes.optimizer * share(StateSharing::kOptimizer));
}

double parameters_of(const Transformer& model) {
  const double l = static_cast<double>(model.layers), h = static_cast<double>(model.hidden);
  return 12 * l * h * h + 13 * l * h + static_cast<double>(model.vocab + model.seq) * h;
}

double flops_with_recomputation(const Transformer& model, int64_t batch) {
  const double l = static_cast<double>(model.layers), h = static_cast<double>(model.hidden),
               s = static_cast<double>(model.seq), v = static_cast<double>(model.vocab);
  return 96 * static_cast<double>(batch) * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
}

double layer_activation_bytes(const Transformer& model, const ActivationPlan& plan) {
  const double s = static_cast<double>(model.seq), h = static_cast<double>(model.hidden),
               a = static_cast<double>(model.heads), t = static_cast<double>(plan.tensor);
  const double sbh = s * static_cast<double>(plan.microbatch) * h;
  if (plan.kept == Kept::kInputs) return 2 * sbh;
  const double whole = plan.sequence == ActivationPlan::Sequence::kWhole ? 10 : 10 / t;
  const double scores = plan.kept == Kept::kAll ? 5 * a * s / (h * t) : 0;
  return sbh * (whole + 24 / t + scores);
}

double first_stage_activation_bytes(const Transformer& model, const ActivationPlan& plan, int64_t stages,
                                    int64_t chunks_per_stage) {
  const double p = static_cast<double>(stages), v = static_cast<double>(chunks_per_stage);
  const double more = chunks_per_stage > 1 ? 1 + (p - 1) / (p * v) : 1;
  return static_cast<double>(model.layers) * layer_activation_bytes(model, plan) * more;
}

}  // namespace trireme::sim
