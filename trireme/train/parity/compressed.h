// A step of compressed agreement, from what each rank has made of gradients and kept before to what all
// agree on and each keeps, by the methods written out (written_methods.h).
#pragma once

#include <string>
#include <vector>

#include "trireme/plan/plan.h"
#include "trireme/train/parity/states.h"

namespace trireme::parity {

// Of one replica, all stages of a pipeline together: what forward and backward parts have left of the parts
// of tensors that these ranks have, and the states that methods keep.
struct OfReplica {
  States left, kept_before, kept_after;
};

// What ranks that differ along replicas and pipe alone have of each gradient, by its state: those along other
// axes (tensor) compress parts of their own.
using GradientParts = std::map<std::string, StatePart, std::less<>>;
struct Compressing {
  GradientParts parts;
  std::vector<OfReplica> replicas;
};
// Which of such groups of ranks a rank is in; and how many there are.
int compressing_group(const Mesh& mesh, int rank);
int compressing_groups(const Mesh& mesh);
// Adds the parts of gradients that the program has.
void note_parts(const Program& program, GradientParts& parts);
// The parts of whole tensors that lie in `parts`. Tensors that are not named there stay whole.
States cut(const States& whole, const GradientParts& parts);

struct Agreed {
  States left;          // as one rank would have it: gradients are those that were agreed on
  States left_bounds;   // how far rounding may have moved it
  std::string problem;  // what a rank keeps and should not: "" where all is right
};

// The states that methods keep of the program.
std::vector<std::string> kept_states(const Program& program);

// `step` counts from 1. `whole` is the program of one rank, `summed` what all ranks have left together.
Agreed agreed_step(const Agreement& how, const Program& whole, int64_t step, double loss_scale,
                   const States& summed, const std::vector<Compressing>& groups);

}  // namespace trireme::parity
