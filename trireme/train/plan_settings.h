// What a plan says of settings that a config has too, and the graphs by which it is checked.
#pragma once

#include "trireme/comm/device_links.h"
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

// Throws Error for what a plan or train.shards asks of sums that ranks which are linked so do otherwise.
void check_links(const Plan& plan, const TrainOptions& train, comm::DeviceLinks links);

// What is allowed, but seldom meant: a line for people. "" where there is nothing to say.
std::string plan_warning(const Plan& plan, int64_t microbatches);

}  // namespace trireme
