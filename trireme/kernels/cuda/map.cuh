// Element-wise launches: a thread takes a pack of 16 bytes of each tensor, the last one what is left.
#pragma once

#include "trireme/kernels/cuda/device.cuh"

namespace trireme::cuda {

inline constexpr int kMapThreads = 256;

// y[i] = f(x[i]) for pack `number`, or what is left of it. y may be x.
template <typename T, typename F>
__device__ __forceinline__ void map_pack(const T* x, T* y, int64_t count, int64_t number, F f) {
  const int64_t first = number * kPack<T>;
  if (first + kPack<T> <= count) {
    Pack<T> pack = load_pack(x + first);
#pragma unroll
    for (int j = 0; j < kPack<T>; ++j) pack.at[j] = narrow<T>(f(widen(pack.at[j])));
    store_pack(y + first, pack);
  } else {
    for (int64_t i = first; i < count; ++i) y[i] = narrow<T>(f(widen(x[i])));
  }
}
template <typename T, typename F>
__global__ void map_kernel(const T* x, T* y, int64_t count, F f) {
  map_pack(x, y, count, int64_t{blockIdx.x} * blockDim.x + threadIdx.x, f);
}

// y[i] = f(a[i], b[i % period]). y may be a, and b where it does not repeat.
template <typename T, typename F>
__global__ void map_kernel(const T* a, const T* b, int64_t period, T* y, int64_t count, F f) {
  const int64_t first = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kPack<T>;
  const bool packs = period % kPack<T> == 0;
  if (first + kPack<T> <= count && packs) {
    Pack<T> left = load_pack(a + first);
    const Pack<T> right = load_pack(b + (period == count ? first : first % period));
#pragma unroll
    for (int j = 0; j < kPack<T>; ++j) left.at[j] = narrow<T>(f(widen(left.at[j]), widen(right.at[j])));
    store_pack(y + first, left);
  } else {
    const int64_t last = first + kPack<T> < count ? first + kPack<T> : count;
    for (int64_t i = first; i < last; ++i) y[i] = narrow<T>(f(widen(a[i]), widen(b[i % period])));
  }
}

template <typename T>
unsigned map_blocks(int64_t count) {
  return blocks(ceil_div(count, int64_t{kMapThreads} * kPack<T>));
}

template <typename F>
void map_one(const KernelContext& context, F f) {
  const int64_t count = context.outputs[0].elements();
  if (count == 0) return;
  with_format(context.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    map_kernel<T><<<map_blocks<T>(count), kMapThreads, 0, stream_of(context)>>>(in<T>(context, 0),
                                                                                out<T>(context, 0), count, f);
  });
}
template <typename F>
void map_two(const KernelContext& context, F f) {
  const int64_t count = context.outputs[0].elements();
  if (count == 0) return;
  with_format(context.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    map_kernel<T><<<map_blocks<T>(count), kMapThreads, 0, stream_of(context)>>>(
        in<T>(context, 0), in<T>(context, 1), context.inputs[1].elements(), out<T>(context, 0), count, f);
  });
}

}  // namespace trireme::cuda
