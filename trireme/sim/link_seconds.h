// How long ranks wait for each other in a list of actions, over a link that is slower than their work: the
// sum of what its collectives take, one after another, with nothing computed beside them.
#pragma once

#include "trireme/comm/collective/emulated_link.h"
#include "trireme/program/program.h"

namespace trireme::sim {

// Every collective by the algorithm that fixed rules choose (comm/collective/choice.h). Of a program without
// messages between stages.
double link_seconds(const Program& program, const ActionList& list, const comm::EmulatedLink& link);
// Of a step on the average, with the lists that are run every so many steps.
double link_seconds_in_step(const Program& program, const comm::EmulatedLink& link);

}  // namespace trireme::sim
