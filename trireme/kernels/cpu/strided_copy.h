// Copies a strided view of a tensor into a dense one: what transpose and broadcast have in common.
#pragma once

#include <array>

#include "trireme/base/tensor_view.h"
#include "trireme/base/thread_pool.h"

namespace trireme::cpu {

// The step in elements of the input for one step along each dim of the output; 0 repeats.
using Strides = std::array<int64_t, Shape::kMaxDims>;

// The steps of a dense tensor itself.
Strides dense_strides(const Shape& shape);

// y[i…] = x[sum i·stride]. Both have elements of the same size.
void strided_copy(const void* x, const Strides& strides, const TensorView& y, ThreadPool& pool);

}  // namespace trireme::cpu
