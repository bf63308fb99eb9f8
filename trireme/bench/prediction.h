// What the simulator says of a step, with what a config and a plan make of it: what a user asks of a plan on
// a cluster that need not be here.
#pragma once

#include "trireme/bench/step_setup.h"
#include "trireme/mesh/cluster.h"
#include "trireme/sim/simulate.h"

namespace trireme::bench {

struct Prediction {
  sim::SimReport report;
  double model_flops = 0, peak_flops_per_second = 0;  // of a step; of all ranks
  double units_per_second = 0;                        // StepSetup::unit()

  // Of the peak, by so many operations a step.
  double utilisation(double flops) const { return flops / (report.step_seconds * peak_flops_per_second); }
};

// `options`: algorithms and plan are filled in. Throws Error where the plan does not suit the model or the
// cluster.
Prediction predict(const StepSetup& setup, const Plan& plan, const Cluster& cluster,
                   sim::SimOptions options = {});

}  // namespace trireme::bench
