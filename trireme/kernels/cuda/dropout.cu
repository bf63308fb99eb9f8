// dropout, dropout_add: the same numbers as base/rng.h, so that a mask has the same bits as on the CPU. A
// thread makes one block of four numbers where four neighbours share it.
#include <cmath>

#include "trireme/ir/pieces.h"
#include "trireme/kernels/cuda/device.cuh"
#include "trireme/kernels/cuda/random.cuh"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 256;

// Where elements of a part lie in the whole tensor: runs of `run` neighbours.
struct WholeIndex {
  int64_t offset, run;
  int outer = 0;  // dims before this one tell runs apart
  int64_t extents[Shape::kMaxDims], strides[Shape::kMaxDims];

  WholeIndex(const Shape& x, const Attrs& attrs) : offset(attrs.integer("offset", 0)) {
    const Shape part = part_in_pieces(x, attrs);
    const Shape whole = whole_in_pieces(attrs.has("whole") ? Shape(attrs.integers("whole")) : x, attrs);
    for (int d = 1; d < part.rank(); ++d) {
      if (part[d] != whole[d]) outer = d;
    }
    run = part.elements(outer, part.rank());
    for (int d = 0; d < outer; ++d) {
      extents[d] = part[d];
      strides[d] = whole.elements(d + 1, whole.rank());
    }
  }
  __device__ uint64_t operator()(int64_t element) const {
    int64_t number = element / run, index = offset + element % run;
    for (int d = outer - 1; d >= 0; --d) {
      index += number % extents[d] * strides[d];
      number /= extents[d];
    }
    return static_cast<uint64_t>(index);
  }
};

// What decides whether an element is kept.
struct Mask {
  WholeIndex whole;
  const int64_t* rng;  // (seed, step)
  uint64_t stream;
  uint32_t threshold;
  float scale;

  Mask(const KernelContext& context)
      : whole(context.inputs[0].shape, context.attrs),
        rng(in<int64_t>(context, 1)),
        stream(static_cast<uint64_t>(context.attrs.integer("stream"))),
        threshold(static_cast<uint32_t>(std::ceil(context.attrs.real("rate") * 0x1p24))),
        scale(static_cast<float>(1 / (1 - context.attrs.real("rate")))) {}
};

// Calls put(element, factor) for four neighbours: the factor is 0 or the scale.
template <typename Put>
__device__ void for_four(const Mask& mask, int64_t first, int64_t count, const Put& put) {
  const uint64_t seed = static_cast<uint64_t>(mask.rng[0]);
  const uint64_t stream = mask.stream + static_cast<uint64_t>(mask.rng[1]) * 0x9E3779B97F4A7C15u;
  uint64_t have = ~uint64_t{0};
  uint4 block{};
  for (int64_t i = first; i < first + 4 && i < count; ++i) {
    const uint64_t index = mask.whole(i);
    if (index / 4 != have) {
      have = index / 4;
      block = random_block(seed, stream, have);
    }
    put(i, word_of(block, index) >> 8 < mask.threshold ? 0 : mask.scale);
  }
}

template <typename T>
__global__ void dropout_kernel(Mask mask, const T* x, T* y, int64_t count) {
  const int64_t first = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * 4;
  for_four(mask, first, count,
           [&](int64_t i, float factor) { y[i] = narrow<T>(factor == 0 ? 0 : widen(x[i]) * factor); });
}

void dropout(const KernelContext& context) {
  const int64_t count = context.inputs[0].elements();
  if (count == 0) return;
  with_format(context.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    dropout_kernel<<<blocks(ceil_div(count, 4 * kThreads)), kThreads, 0, stream_of(context)>>>(
        Mask(context), in<T>(context, 0), out<T>(context, 0), count);
  });
}

// s = residual + dropout(x + bias), rounded where the three ops would have stored their results.
template <typename T>
__global__ void dropout_add_kernel(Mask mask, const T* x, const T* residual, const T* bias, int64_t width,
                                   T* s, int64_t count) {
  const int64_t first = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * 4;
  for_four(mask, first, count, [&](int64_t i, float factor) {
    const T value = bias ? narrow<T>(widen(x[i]) + widen(bias[i % width])) : x[i];
    const T kept = narrow<T>(factor == 0 ? 0 : widen(value) * factor);
    s[i] = narrow<T>(widen(residual[i]) + widen(kept));
  });
}

void dropout_add(const KernelContext& context) {
  const int64_t count = context.inputs[0].elements();
  if (count == 0) return;
  const bool has_bias = context.inputs.size() == 4;
  with_format(context.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    dropout_add_kernel<<<blocks(ceil_div(count, 4 * kThreads)), kThreads, 0, stream_of(context)>>>(
        Mask(context), in<T>(context, 0), in<T>(context, 2), has_bias ? in<T>(context, 3) : nullptr,
        context.inputs[0].shape.back(), out<T>(context, 0), count);
  });
}

}  // namespace

void add_dropout(KernelTable& table) {
  add_for_all_formats(table, "dropout", {dropout});
  add_for_all_formats(table, "dropout_add", {dropout_add});
}

}  // namespace trireme::cuda
