// Warm-up, then constant, step, linear, cosine or inverse square root.
#include "trireme/optim/lr_schedule.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"

namespace trireme {

namespace {

// By what a setting that was found at optim.base_batch is multiplied.
double growth(const std::string& rule, const OptimOptions& optim, int64_t batch) {
  if (rule == "none" || optim.base_batch == 0) return 1;
  const double factor = static_cast<double>(batch) / static_cast<double>(optim.base_batch);
  if (rule == "linear") return factor;
  if (rule == "sqrt") return std::sqrt(factor);
  throw_error("there is no batch rule '{}'; there are none, linear, sqrt", rule);
}

}  // namespace

double scaled_rate(const OptimOptions& optim, int64_t batch) {
  return optim.lr * growth(optim.batch_rule, optim, batch);
}

OptimOptions with_scaled_decay(OptimOptions optim, int64_t batch) {
  const double factor = growth(optim.decay_rule, optim, batch);
  optim.weight_decay *= factor;
  for (ParameterGroup& group : optim.groups) {
    if (group.weight_decay) *group.weight_decay *= factor;
  }
  return optim;
}

double learning_rate(const OptimOptions& optim, const LrScheduleOptions& schedule, int64_t batch,
                     int64_t total_steps, int64_t step) {
  const double full = scaled_rate(optim, batch);
  const int64_t warmup = schedule.warmup_steps;
  if (step < warmup && schedule.warmup_from == "base")
    return optim.lr + (full - optim.lr) * static_cast<double>(step) / static_cast<double>(warmup);
  if (step < warmup) return full * static_cast<double>(step + 1) / static_cast<double>(warmup);
  const double since = static_cast<double>(step - warmup);
  if (schedule.kind == "constant") return full;
  if (schedule.kind == "step")
    return full * std::pow(schedule.drop_factor,
                           std::floor(static_cast<double>(step) / static_cast<double>(schedule.drop_every)));
  const int64_t end = schedule.decay_steps ? schedule.decay_steps : total_steps;
  const double part = std::min(1.0, since / static_cast<double>(std::max<int64_t>(1, end - warmup)));
  if (schedule.kind == "linear") return full + (schedule.min_lr - full) * part;
  if (schedule.kind == "cosine")
    return schedule.min_lr + (full - schedule.min_lr) * 0.5 * (1 + std::cos(std::acos(-1.0) * part));
  if (schedule.kind == "inverse_sqrt") {
    const double start = static_cast<double>(std::max<int64_t>(1, warmup));
    return full * std::sqrt(start / (start + since));
  }
  throw_error("there is no schedule '{}'; there are constant, step, linear, cosine, inverse_sqrt",
              schedule.kind);
}

}  // namespace trireme
