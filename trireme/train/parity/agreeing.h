// Do replicas that have weights of their own between agreements (averaged, mixed) compute what they should?
// Their ranks (one each, or those of tensor parallelism and pipelines inside a replica) are run as threads
// for all steps of the training, in lockstep or at their own pace, and compared in each:
//
//   1. forward and backward: what each replica has made of its rows, against one rank alone that has the same
//      weights and the targets of those rows;
//   2. the update and the agreement: every weight, moment and buffer of every replica, against what its own
//      step makes of *its* gradients, and agreed.h makes of those;
//
// and after the last step the states of a meeting, which are means, and those behind it, which are as before.
// The ranks of a replica must have the same bits of what they should have alike.
// Bytes that ranks have sent are held to those that their programs promise.
//
// At their own pace, what each should have follows from the order in which ranks took messages, which the run
// records; and a second run that replays that order must have the same bits.
#pragma once

#include "trireme/plan/plan.h"
#include "trireme/train/parity/judge.h"

namespace trireme::parity {

// `programs` are those of all ranks.
Result verify_agreeing(const Training& training, const Plan& plan, Width width,
                       const std::vector<Program>& programs);

}  // namespace trireme::parity
