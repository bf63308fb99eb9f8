// Rounding as an experiment. How far may two correct runs of the same graph lie apart when they add up in
// different orders? Closed bounds for a whole network are either false or useless; so the graph is run again
// with every result of every node moved at random by as much as another order could move it, and what
// comes out at the end is looked at (Monte Carlo arithmetic).
//
// A result y of a node in a format with unit in the last place `ulp` (f32: 2^-23, f16: 2^-10, bf16: 2^-7) is
// moved, evenly distributed, by up to
//
//   ulp · |y|                                    where each element is computed from its own operands alone
//   (ulp + 2^-23 · √n) · max(|y|, rms of its row)  where an element is a sum of n terms
//
// and in f16 by at least 2^-24, the distance between its smallest numbers.
//
// All kernels add up in f32 and round once. Errors of n additions grow as √n, and are errors of the terms'
// size, not of the sum's, which may have cancelled: hence the rms, of a row (row_groups.h), since rows of one
// tensor may be of very different size. Where a whole row has cancelled, what its terms were made of has been
// moved too. A plan that adds up parts that were
// rounded to the format first is in `ulp · rms` too. n follows from the op's record: the extents of the
// indices that the result lacks or that are whole, but no more than the FLOPs that an element of the result
// takes. Zeros stay zero: padding, rows of a table that no token asked for, what ReLU cut off.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/runtime/executor.h"

namespace trireme::parity {

// The unit in the last place, relative to the value.
double unit_in_last_place(DType format);

class RoundingNoise {
 public:
  explicit RoundingNoise(const Program& program);

  // For Executor::observe(): one sample of the noise, other for other seeds and for each run of a segment.
  Executor::Observer sample(uint64_t seed) const;

  // Terms that an element of the result is the sum of; 1 where it is none.
  double terms(int segment, int node, int output) const { return terms_[segment][node][output]; }

 private:
  std::vector<std::vector<std::vector<double>>> terms_;
};

// Moves each element by up to `reach` of it.
void move_values(std::vector<float>& values, const std::vector<float>& reach, uint64_t seed);

}  // namespace trireme::parity
