// Which receives of a rank find their chunk free whenever their message can be there.
#pragma once

#include <vector>

#include "trireme/comm/collective/steps.h"

namespace trireme::comm {

// For every step of the rank's list: true for a receive whose message cannot have been sent before all
// earlier steps on its chunks were done (a send counts as done when it was received). Such a message need
// never be received beside its place; in a ring that is all of them, in a butterfly, where both send before
// either receives, none.
std::vector<bool> receives_in_turn(const Steps& steps, int rank);

}  // namespace trireme::comm
