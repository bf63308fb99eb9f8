// The learning rate over time: a pure function of the step, so that resuming needs nothing.
#pragma once

#include <cstdint>

#include "trireme/optim/options.h"

namespace trireme {

// The rate at which a step runs, `step` counting from 0. Warm-up rises linearly to the full rate over
// lr_schedule.warmup_steps W: from 0, which would be step -1, or from optim.lr (lr_schedule.warmup_from =
// base), so that a rate η that optim.batch_rule raises to kη is η(1 + (k - 1) s/W) in step s. What follows is
// lr_schedule.kind's curve. `total_steps` ends the cosine where lr_schedule.decay_steps does not say.
double learning_rate(const OptimOptions& optim, const LrScheduleOptions& schedule, int64_t batch,
                     int64_t total_steps, int64_t step);

// The rate for a batch of `batch` samples, from the rate that was found at optim.base_batch: grown in
// proportion (linear), with the square root (sqrt), or not at all (none).
double scaled_rate(const OptimOptions& optim, int64_t batch);
// The settings with the weight decays that they mean for this batch, grown by optim.decay_rule likewise.
OptimOptions with_scaled_decay(OptimOptions optim, int64_t batch);

}  // namespace trireme
