// By which algorithms the ranks of a plan add up, axis by axis.
#pragma once

#include "trireme/comm/transport/device_links.h"
#include "trireme/plan/plan.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/options.h"

namespace trireme {

// The algorithms that the plan names for its axes. Throws Error with the nearest name when there is no such
// one, and when train.shards needs another.
AxisAlgorithms axis_algorithms(const Plan& plan, const TrainOptions& train);

// Throws Error for what a plan or train.shards asks of sums that ranks which are linked so do otherwise.
void check_links(const Plan& plan, const TrainOptions& train, comm::DeviceLinks links);

}  // namespace trireme
