// A step of compressed agreement, from what each rank has made of gradients and kept before to what all
// agree on and each keeps, by the methods written out (written_methods.h).
#pragma once

#include <string>
#include <vector>

#include "trireme/plan/plan.h"
#include "trireme/train/parity/states.h"

namespace trireme::parity {

// Of each rank along data, all stages of a pipeline together: what forward and backward parts have left, and
// the states that methods keep.
struct OfReplica {
  States left, kept_before, kept_after;
};

struct Agreed {
  States left;          // as one rank would have it: gradients are those that were agreed on
  States left_bounds;   // how far rounding may have moved it
  std::string problem;  // what a rank keeps and should not: "" where all is right
};

// The states that methods keep of the program.
std::vector<std::string> kept_states(const Program& program);

// `step` counts from 1. `whole` is the program of one rank, `summed` what all ranks have left together.
Agreed agreed_step(const Agreement& how, const Program& whole, int64_t step, double loss_scale,
                   const States& summed, const std::vector<OfReplica>& replicas);

}  // namespace trireme::parity
