// This machine as a cluster (mesh/cluster.h), measured: what its ranks reach in products of many shapes, in
// each op that has a benchmark, in memory, and between one another. For the simulator and the planner.
#pragma once

#include <optional>

#include "trireme/bench/step_setup.h"
#include "trireme/comm/context.h"
#include "trireme/mesh/cluster.h"
#include "trireme/runtime/device.h"

namespace trireme::bench {

// Collective over the ranks of a job, which measure at the same time because they share the machine;
// `context` is null where there is one rank. `dtype` is what a device other than the CPU is measured in. Rank
// 0 has the result; that of the others differs by what they saw themselves. With a step, ops have the shares
// that they reach in it (step_shares.h), where it has them. Takes some ten seconds.
Cluster measure_local_cluster(Device& device, DType dtype, int threads, comm::Context* context,
                              const std::optional<StepSetup>& step);

}  // namespace trireme::bench
