// What a plan says of settings that a config has too, and the graphs by which it is checked.
#pragma once

#include "trireme/plan/plan.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/config.h"

namespace trireme {

// Takes accumulate, precision and batch_norm from the plan into the settings, and makes the batch that its
// ranks share. The plan beats defaults; a setting that was given otherwise and differs is an Error with both
// and where they come from.
void apply_plan(const Plan& plan, ResolvedConfig& config);

// The algorithms that the plan names for its axes. Throws Error with the nearest name when there is no such
// one, and when train.shards needs another.
AxisAlgorithms axis_algorithms(const Plan& plan, const TrainOptions& train);

// What is allowed, but seldom meant: a line for people. "" where there is nothing to say.
std::string plan_warning(const Plan& plan, int64_t microbatches);

}  // namespace trireme
