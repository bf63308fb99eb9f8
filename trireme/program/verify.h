// What must hold of Programs before they are run. Throws an Error that says in one sentence what is wrong.
#pragma once

#include <span>

#include "trireme/program/program.h"

namespace trireme {

// Of one rank: graphs are sound; states that segments name exist, with their type, do not overlap, and have
// the slots that they are run on; no two live values overlap; actions name what exists; and in a step nothing
// is read that the step should have made before (gradients, what is pending) or computed twice
// (microbatches).
void verify(const Program& program);

// Of all ranks of a mesh, in order: besides, every collective and every message has its partners, in the same
// order on all of them, nobody waits for ever, and all rows of a batch are computed equally often.
void verify(std::span<const Program> ranks);

}  // namespace trireme
