// How long ranks wait for each other in a list of actions, over a link that is slower than their work: what
// its collectives take in the order of the program, with nothing computed beside them. What is begun goes on
// beside what follows, until it is waited for.
#pragma once

#include "trireme/comm/collective/emulated_link.h"
#include "trireme/plan/plan.h"
#include "trireme/program/program.h"

namespace trireme::sim {

// Every collective by the algorithm that fixed rules choose (comm/collective/choice.h). Of a program without
// messages between stages.
double link_seconds(const Program& program, const ActionList& list, const comm::EmulatedLink& link);
// Of a step on the average, with the lists that are run every so many steps.
double link_seconds_in_step(const Program& program, const comm::EmulatedLink& link);
// A training run's ranks also agree after a step whether one of them was asked to stop
// (run/stop_agreement.h), where they hear of each other in that step: what that takes on the average.
double agreement_seconds_in_step(const Plan& plan, const comm::EmulatedLink& link);

}  // namespace trireme::sim
