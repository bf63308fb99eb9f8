// Elements of known tensors by index, for emitter_*.cc.
#pragma once

#include <vector>

#include "trireme/onnx/tensor.h"

namespace trireme::onnx {

inline std::vector<int64_t> strides_of(const Shape& shape) {
  std::vector<int64_t> strides(shape.rank(), 1);
  for (int d = shape.rank() - 2; d >= 0; --d) strides[d] = strides[d + 1] * shape[d + 1];
  return strides;
}

// For each element of a tensor of this shape, in order, the sum of index times step over the dims.
template <typename Visit>
void for_each_offset(const Shape& shape, const std::vector<int64_t>& steps, const Visit& visit) {
  const int64_t count = shape.elements();
  std::vector<int64_t> index(shape.rank(), 0);
  int64_t offset = 0;
  for (int64_t i = 0; i < count; ++i) {
    visit(i, offset);
    for (int d = shape.rank() - 1; d >= 0; --d) {
      offset += steps[d];
      if (++index[d] < shape[d]) break;
      offset -= steps[d] * shape[d];
      index[d] = 0;
    }
  }
}

// x as if it had `shape`, to which it is broadcast.
inline std::vector<int64_t> steps_in(const Shape& x, const Shape& shape) {
  const std::vector<int64_t> strides = strides_of(x);
  std::vector<int64_t> steps(shape.rank(), 0);
  const int shift = shape.rank() - x.rank();
  for (int d = 0; d < x.rank(); ++d) steps[d + shift] = x[d] == 1 ? 0 : strides[d];
  return steps;
}

// Element i is x's at `first` and the offset of i by these steps.
inline Tensor strided(const Tensor& x, const Shape& shape, const std::vector<int64_t>& steps,
                      int64_t first = 0) {
  Tensor result = zeros(x.type, shape);
  for_each_offset(shape, steps, [&](int64_t i, int64_t offset) {
    if (is_real(x.type))
      result.reals[i] = x.reals[first + offset];
    else
      result.integers[i] = x.integers[first + offset];
  });
  return result;
}

}  // namespace trireme::onnx
