// Warm-up, then constant, step, linear, cosine or inverse square root.
#include "trireme/optim/lr_schedule.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"

namespace trireme {

double scaled_rate(const OptimOptions& optim, int64_t batch) {
  if (optim.batch_rule == "none" || optim.base_batch == 0) return optim.lr;
  const double factor = static_cast<double>(batch) / static_cast<double>(optim.base_batch);
  if (optim.batch_rule == "linear") return optim.lr * factor;
  if (optim.batch_rule == "sqrt") return optim.lr * std::sqrt(factor);
  throw_error("there is no batch rule '{}'; there are none, linear, sqrt", optim.batch_rule);
}

double learning_rate(const OptimOptions& optim, const LrScheduleOptions& schedule, int64_t batch,
                     int64_t total_steps, int64_t step) {
  const double full = scaled_rate(optim, batch);
  const int64_t warmup = schedule.warmup_steps;
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
