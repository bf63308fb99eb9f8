// Which receives of a rank may wait for their turn.
#pragma once

#include <vector>

#include "trireme/comm/collective/steps.h"

namespace trireme::comm {

// For every step of the rank's list: true for a receive that may be left waiting until all earlier steps on
// its chunks are done, because none of them needs this message to be taken first. It can then be combined
// into its place as it comes. In a ring that is so for all of them; in a butterfly, where both ranks send a
// chunk before either receives it, for none: those are received beside the chunk.
std::vector<bool> receives_in_turn(const Steps& steps, int rank);

}  // namespace trireme::comm
