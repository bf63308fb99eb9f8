// What the ops of a model's step reach on a device, for a cluster file: shares of the roofline in the shapes
// and in the order of that step, fused ops among them, which no benchmark of single kernels has.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "trireme/bench/device_ceilings.h"
#include "trireme/bench/step_setup.h"
#include "trireme/mesh/cluster.h"
#include "trireme/runtime/device.h"

namespace trireme::bench {

// One launch of an op, on average over those of a step: what it takes by the roofline, and took beside the
// launch.
struct OpTime {
  double roofline_seconds = 0, seconds = 0;
};
struct OpFigures {
  double share = 1;          // of the roofline
  double least_seconds = 0;  // DeviceClass::op_seconds
};
// From steps of many rows and of few, where those were made: what of the time goes with the work, and what
// does not. Steps of many rows are always met.
OpFigures figures_of(const OpTime& many, const std::optional<OpTime>& few);

struct StepShares {
  std::map<std::string, OpFigures, std::less<>> of_ops;
  double seconds = 0;  // that the nodes of a step took together
};

// Runs some steps on this rank alone, on its part of the batch of a job of so many, and times them node by
// node; on a device other than the CPU also of an eighth of the rows: kernels there take microseconds until
// they have begun. `local` says what the roofline is; its own shares do not count.
StepShares measure_step_shares(StepSetup setup, int ranks, Device& device, DeviceClass local,
                               const LaunchTime& launch);

}  // namespace trireme::bench
