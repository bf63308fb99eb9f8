// A step over a slow link (`--link`): the clock on hosts of one device each, with collectives as comm/ runs
// them.
#pragma once

#include "trireme/comm/collective/emulated_link.h"
#include "trireme/plan/plan.h"
#include "trireme/sim/simulate.h"

namespace trireme::sim {

// Hosts of one device each, whose only cost is the link.
Cluster cluster_over(const comm::EmulatedLink& link, int hosts);

// `rank` computes for so long in a step, and others by the same device as much as their programs have to.
SimReport step_over(const comm::EmulatedLink& link, const Plan& plan, const ProgramSource& programs,
                    double computing_seconds = 0, int rank = 0);

// A training run's ranks also agree after a step whether one of them was asked to stop
// (train/stop_agreement.h), where they hear of each other in that step: what that takes on the average.
double stop_seconds_over(const comm::EmulatedLink& link, const Plan& plan);

}  // namespace trireme::sim
