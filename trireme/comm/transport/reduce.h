// The arithmetic of collectives: into = into (op) from, element by element. 16-bit formats are widened to
// float, combined and rounded once. Element i never meets element j, so cutting a vector anywhere changes no
// bit.
#pragma once

#include <cstddef>
#include <span>

#include "trireme/base/dtype.h"
#include "trireme/comm/collective/call.h"

namespace trireme::comm {

// Combines `bytes` bytes, a multiple of the element's size. The two ranges are equal or do not overlap.
using Combine = void (*)(std::byte* into, const std::byte* from, size_t bytes);

// The function for a format and an op; `average` adds, and scale() finishes it.
Combine combine_function(DType dtype, ReduceOp op);

// data *= 1 / ranks, rounded once: the end of an average. Only for float formats.
void scale(std::byte* data, DType dtype, size_t bytes, int ranks);

// What may be asked: averages of integers are refused, with the reason. Throws Error.
void check_reducible(DType dtype, ReduceOp op);

// The arithmetic of direct reductions in shared memory: one pass that reads all inputs and writes all
// outputs, so that every line is touched once. Each output = inputs[0] (op) inputs[1] (op) …, from left to
// right; 16-bit formats are widened to float and rounded once at the end, an average is divided before that.
// An output may be one of the inputs. `bytes` is a multiple of the element's size.
using ManyReduce = void (*)(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
                            size_t bytes);
ManyReduce many_reduce_function(DType dtype, ReduceOp op);

}  // namespace trireme::comm
