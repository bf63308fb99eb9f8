// Training steps as command lines say them, without data: what entries count, and what the simulator times.
#pragma once

#include <string>
#include <vector>

#include "trireme/bench/step_setup.h"
#include "trireme/mesh/cluster.h"
#include "trireme/program/program.h"
#include "trireme/sim/simulate.h"

namespace trireme::reproduce {

using Settings = std::vector<std::string>;  // {"model.family=resnet", "train.batch=64"}

struct Step {
  bench::StepSetup setup;
  Plan plan;
};
// `plan`: as --plan has it; "": one rank. The environment is not asked. Throws Error as commands do.
Step read_step(const Settings& settings, const std::string& plan = "");

std::vector<Value> parameters_of(const Step& step);  // the trained ones
double parameter_count(const Step& step);
double model_flops_of(const Step& step);  // as MFU counts them
Program program_of(const Step& step, int rank = 0);

// Of weights, gradients and the optimizer's states.
double model_state_bytes(const Program& program);

// What a rank sends of its own gradients in a step, of `exchange` (a value of the plan's key) by two ranks:
// an all-reduce or a gather by two sends what a rank has once.
double payload_bytes(const Step& step, const std::string& exchange);

// What `trireme simulate` does.
sim::SimReport simulated(const Step& step, const Cluster& cluster, sim::Overlap overlap);

}  // namespace trireme::reproduce
