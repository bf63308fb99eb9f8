// Do servers and their workers compute what they should? All are run as threads, and what each has taken and
// made in every step is recorded, the order of arrivals with it. Then:
//
//   1. forward and backward of every worker's step, against one rank alone that has the weights which the
//      worker was given and the targets of its rows;
//   2. what a worker is given, bit by bit: the weights behind the update that the plan and the order say;
//   3. what a server has added up for each update, against the gradients of the workers that the order says;
//   4. every update, against what one rank makes of the server's gradients at the rate that the order says.
//
// Without staleness that is the mean over all workers, whatever the order. Bytes that ranks have sent are
// held to those that their programs promise, and a run that replays the order must have the same bits.
#pragma once

#include "trireme/plan/plan.h"
#include "trireme/train/parity/judge.h"

namespace trireme::parity {

// `programs` are those of all ranks.
Result verify_served(const Training& training, const Plan& plan, Width width,
                     const std::vector<Program>& programs);

}  // namespace trireme::parity
