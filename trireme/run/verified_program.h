// What is proved of a run's Programs before its first step (program/verify.h), in milliseconds: every rank
// verifies its own, and rank 0 those of all ranks together, where they are few enough to be built there.
#pragma once

#include <functional>

#include "trireme/program/program.h"

namespace trireme {

inline constexpr int kVerifiedTogether = 64;  // ranks

// `others` builds the program of another rank; it is asked on rank 0 alone. Throws Error, with what is wrong.
void verify_before_steps(const Program& own, const std::function<Program(int rank)>& others);

}  // namespace trireme
