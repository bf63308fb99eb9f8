// Settings as features that go together with those of a plan, or not.
#pragma once

#include "trireme/plan/combinations.h"
#include "trireme/train/options.h"

namespace trireme {

// Of the plan and of the settings.
Features features_of(const Plan& plan, const TrainOptions& train);

}  // namespace trireme
