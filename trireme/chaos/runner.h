// Runs one drill with real processes: starts the job, strikes it, and sees what becomes of it.
#pragma once

#include "trireme/chaos/result.h"
#include "trireme/chaos/scene.h"

namespace trireme::chaos {

// `seed` decides which rank is struck and when. Throws Error where the drill can not be made here at all; a
// promise that is broken is in the result.
Result run_drill(const ChosenDrill& drill, uint64_t seed, const SceneOptions& options);

}  // namespace trireme::chaos
