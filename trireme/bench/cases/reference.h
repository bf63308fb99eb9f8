// Small helpers for the naive references of the cases.
#pragma once

#include <cmath>
#include <utility>

#include "trireme/base/rng.h"
#include "trireme/bench/cases/op_case.h"
#include "trireme/ir/channels_last.h"

namespace trireme::bench {

// A tensor of zeros of the same type, or of the same dtype and another shape.
inline RefTensor like(const RefTensor& tensor) {
  return RefTensor::zeros(tensor.shape, tensor.dtype);
}
inline RefTensor like(const RefTensor& tensor, Shape shape) {
  return RefTensor::zeros(shape, tensor.dtype);
}

// y[i] = F(x[i]) and y[i] = F(a[i], b[i % size of b]), as whole references of element-wise ops.
template <double (*F)(double)>
RefTensors elementwise(const RefTensors& in, const Attrs&) {
  RefTensor y = like(in[0]);
  for (size_t i = 0; i < y.values.size(); ++i) y.values[i] = F(in[0].values[i]);
  return {y};
}
template <double (*F)(double, double)>
RefTensors elementwise(const RefTensors& in, const Attrs&) {
  RefTensor y = like(in[0]);
  const auto& b = in[1].values;
  for (size_t i = 0; i < y.values.size(); ++i) y.values[i] = F(in[0].values[i], b[i % b.size()]);
  return {y};
}

// As the tensor's 16 bits hold it, where it has no more: what a fused op makes on its way.
inline RefTensor stored(RefTensor tensor) {
  for (double& value : tensor.values) {
    if (tensor.dtype == DType::bf16) value = static_cast<float>(Bf16(static_cast<float>(value)));
    if (tensor.dtype == DType::f16) value = static_cast<float>(F16(static_cast<float>(value)));
  }
  return tensor;
}

inline double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
inline double gelu_slope(double x) {
  const double a = std::sqrt(2 / M_PI), t = std::tanh(a * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * a * (1 + 3 * 0.044715 * x * x);
}

// Of the numbers that an op draws in a step (rng.h).
inline RngKey rng_key(double seed, const Attrs& attrs, double step) {
  return {static_cast<uint64_t>(seed),
          static_cast<uint64_t>(attrs.integer("stream")) + static_cast<uint64_t>(step) * 0x9E3779B97F4A7C15u};
}

// The index of element `flat` in each dim, and back.
inline std::vector<int64_t> unravel(int64_t flat, const Shape& shape) {
  std::vector<int64_t> index(shape.rank());
  for (int i = shape.rank() - 1; i >= 0; --i) {
    index[i] = flat % shape[i];
    flat /= shape[i];
  }
  return index;
}
inline int64_t ravel(const std::vector<int64_t>& index, const Shape& shape) {
  int64_t flat = 0;
  for (int i = 0; i < shape.rank(); ++i) flat = flat * shape[i] + index[i];
  return flat;
}

// Images with channels last as images with channels first, and back; tensors of other ranks stay.
inline RefTensor turned(const RefTensor& tensor, const std::vector<int64_t>& perm) {
  if (tensor.shape.rank() != 4) return tensor;
  std::vector<int64_t> extents;
  for (int64_t d : perm) extents.push_back(tensor.shape[static_cast<int>(d)]);
  RefTensor result = like(tensor, Shape(extents));
  for (int64_t i = 0; i < result.shape.elements(); ++i) {
    const std::vector<int64_t> to = unravel(i, result.shape);
    std::vector<int64_t> from(4);
    for (size_t d = 0; d < 4; ++d) from[static_cast<size_t>(perm[d])] = to[d];
    result.values[i] = tensor.values[ravel(from, tensor.shape)];
  }
  return result;
}
// The reference of an op with channels last, by that of the op with channels first.
template <RefTensors (*kFirst)(const RefTensors&, const Attrs&)>
RefTensors by_channels_first(const RefTensors& in, const Attrs& attrs) {
  RefTensors first, last;
  for (const RefTensor& one : in) first.push_back(turned(one, perm_to_channels_first()));
  for (const RefTensor& one : kFirst(first, attrs)) last.push_back(turned(one, perm_to_channels_last()));
  return last;
}

// Inputs that stay f32 in every run: stats, optimizer states, scalars.
inline CaseInput kept_f32(Shape shape, double low = -1, double high = 1) {
  return {shape, DType::f32, low, high, CaseInput::Format::kKept};
}
inline CaseInput ids(Shape shape, double low, double high) {
  return {shape, DType::i32, low, high};
}

}  // namespace trireme::bench
