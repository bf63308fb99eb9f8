// Do ranks that have weights of their own between agreements (averaged, mixed) compute what they should?
// They are run as threads, in lockstep, for all steps of the training, and compared in each:
//
//   1. forward and backward: what each rank has made of its rows, against one rank alone that has the same
//      weights and the targets of those rows;
//   2. the update and the agreement: every weight, moment and buffer of every rank, against what each rank's
//      own step makes of *its* gradients, and agreed.h makes of those;
//
// and after the last step the states of a meeting, which are means, and those behind it, which are as before.
// Bytes that ranks have sent are held to those that their programs promise.
#pragma once

#include "trireme/plan/plan.h"
#include "trireme/train/parity/judge.h"

namespace trireme::parity {

// `programs` are those of all ranks.
Result verify_agreeing(const Training& training, const Plan& plan, Width width,
                       std::vector<Program> programs);

}  // namespace trireme::parity
