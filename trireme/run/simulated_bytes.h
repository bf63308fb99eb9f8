// What the simulator says that ranks send in a step, against what their programs promise: one is made of the
// other, so that they are the same number.
#pragma once

#include <string>

#include "trireme/plan/plan.h"
#include "trireme/train/step.h"

namespace trireme::parity {

// "" where all ranks send as much in both. Throws Error for what can not be simulated.
std::string simulated_bytes_problem(const Model& model, const TrainOptions& train, const OptimOptions& optim,
                                    const StepShape& shape, const Plan& plan);

}  // namespace trireme::parity
