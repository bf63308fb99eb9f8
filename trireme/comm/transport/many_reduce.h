// The arithmetic of direct reductions in shared memory: one pass that reads all inputs and writes all
// outputs, so that every line is touched once.
#pragma once

#include <cstddef>
#include <span>

#include "trireme/comm/collective/call.h"

namespace trireme::comm {

// Each output = inputs[0] (op) inputs[1] (op) …, from left to right; 16-bit formats are widened to float and
// rounded once at the end, an average is divided before that. An output may be one of the inputs. `bytes` is
// a multiple of the element's size.
using ManyReduce = void (*)(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
                            size_t bytes);
ManyReduce many_reduce_function(DType dtype, ReduceOp op);

}  // namespace trireme::comm
