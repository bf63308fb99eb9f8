// The arithmetic of collectives: into = into (op) from, element by element. 16-bit formats are widened to
// float, combined and rounded once. Element i never meets element j, so cutting a vector anywhere changes no
// bit.
#pragma once

#include <cstddef>

#include "trireme/base/dtype.h"
#include "trireme/comm/collective/call.h"

namespace trireme::comm {

// Combines `bytes` bytes, a multiple of the element's size. The two ranges are equal or do not overlap.
using Combine = void (*)(std::byte* into, const std::byte* from, size_t bytes);

// The function for a format and an op; `average` adds, and scale() finishes it.
Combine combine_function(DType dtype, ReduceOp op);

// into = a (op) b, a third place: what a direct reduction in shared memory needs to touch each line once.
using CombineInto = void (*)(std::byte* into, const std::byte* a, const std::byte* b, size_t bytes);
CombineInto combine_into_function(DType dtype, ReduceOp op);

struct ReduceFunctions {
  Combine combine;
  CombineInto combine_into;
};

// data *= 1 / ranks, rounded once: the end of an average. Only for float formats.
void scale(std::byte* data, DType dtype, size_t bytes, int ranks);

// What may be asked: averages of integers are refused, with the reason. Throws Error.
void check_reducible(DType dtype, ReduceOp op);

}  // namespace trireme::comm
