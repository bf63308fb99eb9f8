// What device code shares: number formats, packs of 16 bytes, sums over warps and blocks in a fixed order.
// Arithmetic is f32; 16-bit tensors are widened when they are read and rounded when they are written.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "trireme/kernels/cuda/context.h"
#include "trireme/kernels/kernel.h"

namespace trireme::cuda {

using bf16 = __nv_bfloat16;  // the bits of Bf16
using f16 = __half;          // and of F16

__device__ __forceinline__ float widen(float x) {
  return x;
}
__device__ __forceinline__ float widen(bf16 x) {
  return __bfloat162float(x);
}
__device__ __forceinline__ float widen(f16 x) {
  return __half2float(x);
}
template <typename T>
__device__ __forceinline__ T narrow(float x);
template <>
__device__ __forceinline__ float narrow<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ bf16 narrow<bf16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ __forceinline__ f16 narrow<f16>(float x) {
  return __float2half_rn(x);
}

// What one thread reads or writes at once. Tensors begin at multiples of 64 bytes.
template <typename T>
inline constexpr int kPack = 16 / sizeof(T);
template <typename T>
struct alignas(16) Pack {
  T at[kPack<T>];
};
template <typename T>
__device__ __forceinline__ Pack<T> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T>*>(from);
}
template <typename T>
__device__ __forceinline__ void store_pack(T* to, const Pack<T>& pack) {
  *reinterpret_cast<Pack<T>*>(to) = pack;
}

// kCount elements, one or a whole pack, in f32.
template <int kCount, typename T>
__device__ __forceinline__ void load_floats(const T* from, float (&to)[kCount]) {
  if constexpr (kCount == 1) {
    to[0] = widen(*from);
  } else {
    static_assert(kCount == kPack<T>);
    const Pack<T> pack = load_pack(from);
#pragma unroll
    for (int j = 0; j < kCount; ++j) to[j] = widen(pack.at[j]);
  }
}
template <int kCount, typename T>
__device__ __forceinline__ void store_floats(T* to, const float (&from)[kCount]) {
  if constexpr (kCount == 1) {
    *to = narrow<T>(from[0]);
  } else {
    Pack<T> pack;
#pragma unroll
    for (int j = 0; j < kCount; ++j) pack.at[j] = narrow<T>(from[j]);
    store_pack(to, pack);
  }
}

struct Add {
  template <typename V>
  __device__ V operator()(V a, V b) const {
    return a + b;
  }
};
struct Max {  // a NaN wins, so that it is not lost
  __device__ float operator()(float a, float b) const { return a > b || isnan(a) ? a : b; }
};

// All lanes get the result.
template <typename V, typename Op>
__device__ __forceinline__ V warp_reduce(V value, Op op) {
  for (int lane = 16; lane > 0; lane /= 2) value = op(value, __shfl_xor_sync(~0u, value, lane));
  return value;
}
// All threads get the result; blocks are one-dimensional, of whole warps.
template <typename V, typename Op>
__device__ __forceinline__ V block_reduce(V value, V identity, Op op) {
  __shared__ V parts[32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  value = warp_reduce(value, op);
  __syncthreads();
  if (lane == 0) parts[warp] = value;
  __syncthreads();
  return warp_reduce(lane < warps ? parts[lane] : identity, op);
}
template <typename V>
__device__ __forceinline__ V block_sum(V value) {
  return block_reduce(value, V(0), Add());
}
__device__ __forceinline__ float block_max(float value) {
  return block_reduce(value, -INFINITY, Max());
}

template <typename T>
const T* in(const KernelContext& context, int i) {
  return static_cast<const T*>(context.inputs[i].data);
}
template <typename T>
T* out(const KernelContext& context, int i) {
  return static_cast<T*>(context.outputs[i].data);
}

inline int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
inline unsigned blocks(int64_t count) {
  return static_cast<unsigned>(count);
}

// Calls body with a value of the device's type for a floating-point format.
template <typename Body>
void with_format(DType dtype, const Body& body) {
  if (dtype == DType::f32) return body(float{});
  if (dtype == DType::bf16) return body(bf16{});
  TRIREME_CHECK(dtype == DType::f16);
  body(f16{});
}

// Calls body(how many elements a thread takes at once): a pack where rows of `width` are whole packs, or one.
template <typename T, typename Body>
void with_pack(int64_t width, const Body& body) {
  if (width % kPack<T> == 0)
    body(std::integral_constant<int, kPack<T>>());
  else
    body(std::integral_constant<int, 1>());
}

}  // namespace trireme::cuda
