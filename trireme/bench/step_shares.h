// What the ops of a model's step reach on a device, for a cluster file: shares of the roofline in the shapes
// and in the order of that step, fused ops among them, which no benchmark of single kernels has.
#pragma once

#include <map>
#include <string>

#include "trireme/bench/step_setup.h"
#include "trireme/mesh/cluster.h"
#include "trireme/runtime/device.h"

namespace trireme::bench {

// Runs some steps on this rank alone, on its part of the batch of a job of so many, and times them node by
// node. `local` says what the roofline is; its own shares do not count.
std::map<std::string, double, std::less<>> measure_step_shares(StepSetup setup, int ranks, Device& device,
                                                               DeviceClass local);

}  // namespace trireme::bench
