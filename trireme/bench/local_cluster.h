// This machine as a cluster (mesh/cluster.h), measured: what its ranks reach in products of many shapes, in
// each op that has a benchmark, in memory, and between one another. For the simulator and the planner.
#pragma once

#include <optional>
#include <string_view>

#include "trireme/bench/step_setup.h"
#include "trireme/comm/context.h"
#include "trireme/mesh/cluster.h"
#include "trireme/runtime/device.h"

namespace trireme::bench {

// Collective over the ranks of a job, which measure at the same time because they share the machine;
// `context` is null where there is one rank. `dtype` is what a device other than the CPU is measured in. With
// a step, ops have the shares that they reach in it (step_shares.h), where it has them. Takes some ten
// seconds. All ranks have the same result: that of the slowest.
Cluster measure_local_cluster(Device& device, DType dtype, int threads, comm::Context* context,
                              const std::optional<StepSetup>& step);

// Collective: what the rank has found for which a step, or whatever all have measured, took longest. The
// others wait for it wherever they meet, so that what it does is what ranks can count on.
Cluster slowest_of(const Cluster& own, double seconds, comm::Context& context);

// What ranks have between one another on this machine, or between the hosts that they run on.
constexpr std::string_view kLocalLink = "between ranks";

// Collective over all ranks. On the CPU, ranks come to it from work, as they do in a step: α then has what
// they wait for each other, which is much where they share processors, and `slowdown` what work loses to a
// transport that copies by itself, or to sockets, which the kernel serves on the same processors.
LinkClass measure_link(comm::Context& context, Device& device);

}  // namespace trireme::bench
