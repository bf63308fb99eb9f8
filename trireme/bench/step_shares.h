// What the ops of a model's step reach on a device, for a cluster file: shares of the roofline in the shapes
// and in the order of that step, fused ops among them, which no benchmark of single kernels has.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/bench/device_ceilings.h"
#include "trireme/bench/step_setup.h"
#include "trireme/bench/step_sums.h"
#include "trireme/mesh/cluster.h"
#include "trireme/runtime/device.h"

namespace trireme::bench {

// Launches that take about as long by the roofline have one point, their mean.
OpShare share_of(std::vector<OpTime> launches);

struct StepShares {
  std::map<std::string, OpShare, std::less<>> of_ops;
  double seconds = 0;  // that a step takes
};

// Runs some steps on this rank alone, on its part of the batch of a job of so many, on half of the rows, on a
// quarter, and so on until there is one, and times them node by node. Nodes with what `launch` says every one
// takes are together as long as a step that nobody times. `local` says what the roofline is; its own shares
// do not count.
StepShares measure_step_shares(StepSetup setup, int ranks, Device& device, DeviceClass local,
                               const LaunchTime& launch);

}  // namespace trireme::bench
