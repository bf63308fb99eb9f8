// What can be known of a run before it: the plan that is the fastest on the machine at hand, and
// what a step of a plan takes there. Both by a cluster file (docs/simulator.md).
#pragma once

#include <string>

#include "trireme/data/open_data.h"
#include "trireme/mesh/cluster.h"
#include "trireme/models/model.h"
#include "trireme/run/config.h"
#include "trireme/run/run_folder.h"

namespace trireme {

// What so many ranks run on: the cluster that `text` names, or where it is "" that of local.toml in this
// folder. Throws Error, also where there is no such file, with the command that measures one.
Cluster cluster_of_ranks(const std::string& text, int ranks);

struct ChosenPlan {
  Plan plan;
  std::string said;  // for people: what it is, and how sure that is
};
// The fastest for all devices of the cluster; or, where run.dir has a checkpoint to go on from, the plan of
// that, so that the run gives the same bits as one that was never stopped. Microbatches are searched over
// unless train.accumulate was given. Throws Error as planner::search() does.
ChosenPlan choose_plan(const ResolvedConfig& config, const ModelRecord& model, const OpenedData& data,
                       const Cluster& cluster, int ranks_here);

struct SimulatedStep {
  ExpectedStep expected;
  std::string timeline;  // timeline_json()
};
// `config` is what the plan was applied to.
SimulatedStep simulated_step(Config config, const ModelRecord& model, const OpenedData& data,
                             const Plan& plan, const Cluster& cluster, int ranks_here);

}  // namespace trireme
