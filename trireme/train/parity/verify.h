// Does a plan compute what one rank computes? Both are run from the same weights on the same batches, ranks
// as threads, and compared twice a step:
//
//   1. forward and backward: loss, count, every gradient and renewed buffer, added up over the ranks, against
//      one rank's from the same weights;
//   2. the update: every weight, moment and buffer against what one rank makes of *the plan's* gradients;
//
// and after the last step the loss of an evaluation. Then the plan's ranks take one rank's weights and
// moments, so each step stands for itself. This is what makes the bounds sharp: Adam turns a gradient that is
// zero but for its rounding into a whole step, so weights after some steps may differ by that much though
// nothing is wrong, and a bound that allows for it sees nothing. From the same gradient, an update must
// agree to the last bits. If all steps agree to rounding from equal states, so does the whole run.
//
// How much rounding may do is found by experiment, not assumed: see noise.h for what is moved and how that
// follows from formats and lengths of sums. A tensor passes when no element is off by more than 8 times the
// largest move of any element of its row (row_groups.h) in 6 noisy runs; what is off by little more is judged
// again by 48.
//
// In 16 bits rounding may do so much that it hides mistakes of some per cent. So such a plan is run a second
// time, the same programs held in f32 (passes/widen.h) against one rank's held in f32, where rounding hides
// nothing: the first run judges the formats, the second the structure.
#pragma once

#include <functional>

#include "trireme/plan/plan.h"
#include "trireme/train/parity/judge.h"

namespace trireme::parity {

// Makes the program of one rank; for tests that put mistakes in. Its default is step_program().
using ProgramMaker = std::function<Program(const Training&, const Device&, const RankOptions&)>;

// Throws Error when ranks fail on the way, which no right or wrong result explains.
Result verify(Reference& reference, const Plan& plan, const ProgramMaker& make_program = nullptr);

}  // namespace trireme::parity
