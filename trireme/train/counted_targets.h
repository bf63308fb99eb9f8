// How many targets a gradient that is being added up counts. A rank may have counted fewer than the gradient
// that it holds is about: where gradients are reduced in every microbatch (zero2, zero3) and counts are not,
// and on the stages of a pipeline that do not see the targets.
#pragma once

#include <vector>

#include "trireme/runtime/executor.h"

namespace trireme {

class CountedTargets {
 public:
  // Collective over all ranks of the program where their own counts are not enough, see above.
  explicit CountedTargets(Executor& executor);

  // Of a gradient state of this rank. Where each rank has an addend of it, those that this rank counted.
  double of(const State& gradient) const;

 private:
  const Program& program_;
  // Per rank, of the microbatches of a chunk's first and of its second holder (passes/second_holder.h).
  std::vector<double> first_, second_;
  std::vector<bool> added_;  // per axis of the mesh: whether counts of the ranks along it are addends
};

// Whether this rank's stage makes a gradient state itself, and does not borrow it for the update.
bool is_made_here(const Program& program, const State& gradient);

}  // namespace trireme
