// Puts methods of exchange in the place of sums of gradients over the axis data: what a rank compresses,
// sends, and makes of what it gets, with the states that the method keeps from step to step.
//
//   %sum = all_reduce(%grad.w)   ->   %kept = …(%grad.w, %residual.w)  %all = all_gather(%kept)  %sum =
//   …(%all)
//
// What all methods of a step send in one move goes together, but for a pipeline: there, what each stage sends
// does. Whether a rank's gradients are finite is agreed
// on before anything is lost, so that a step that must be skipped is; and what is kept then stays as it was.
//
// Works on one rank's update after partition, where gradients lie as addends over data (program/build.cc sees
// to that), before bucket. All ranks get the same nodes.
#pragma once

#include "trireme/exchange/agreement_record.h"
#include "trireme/passes/spread.h"
#include "trireme/passes/stage_update.h"
#include "trireme/plan/plan.h"

namespace trireme {

// `graph` is an update (optim/update.h), of all stages where there are several (passes/stage_update.h cuts it
// behind this pass): it has the states accumulated.count and grad.NAME, the inputs
// loss_scale and step, and the output scale, which is not finite where the step is skipped. `whole` is what
// it is a rank's part of, with its pins. The same graph where the plan says nothing else than dense sums.
// Throws Error where a gradient is not added up so that a method could take the place of that. `kept` is
// added to where it is given. `stages` names the stages that have each parameter; it is empty where one has
// all. With `until`, one of early_ends() (exchange/choice.h), it is the update of the steps up to that one,
// under a name of its own.
Graph exchange(const Graph& graph, const Graph& whole, const Plan& plan, const Pins& pins, int rank,
               const OpTable& ops, const StateStages& stages, KeptStates* kept = nullptr, int64_t until = 0);

}  // namespace trireme
