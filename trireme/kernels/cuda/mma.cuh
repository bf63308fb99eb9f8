// Products of small matrices by the tensor cores of one warp: c[16 × 8] += a[16 × 16] · b[16 × 8], operands
// of 16 bits, sums in f32. With g = lane / 4 and t = lane % 4, a lane has of c the elements (g, 2t), (g, 2t +
// 1), (g + 8, 2t), (g + 8, 2t + 1), so that two neighbouring c's, rounded, are an a.
#pragma once

#include "trireme/kernels/cuda/device.cuh"

namespace trireme::cuda {

struct FragmentA {
  uint32_t at[4];
};
struct FragmentsB {  // two neighbours: columns 0 … 7 and 8 … 15
  uint32_t at[4];
};

__device__ __forceinline__ void multiply_add(float (&c)[4], const FragmentA& a, uint32_t b0, uint32_t b1,
                                             bf16) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void multiply_add(float (&c)[4], const FragmentA& a, uint32_t b0, uint32_t b1,
                                             f16) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t rounded_pair(float low, float high, bf16) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
__device__ __forceinline__ uint32_t rounded_pair(float low, float high, f16) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// Two neighbouring results as the left operand of the next product.
template <typename T>
__device__ __forceinline__ FragmentA as_operand(const float (&left)[4], const float (&right)[4]) {
  return {rounded_pair(left[0], left[1], T()), rounded_pair(left[2], left[3], T()),
          rounded_pair(right[0], right[1], T()), rounded_pair(right[2], right[3], T())};
}

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}
template <typename Fragment, typename T>
__device__ __forceinline__ Fragment load_matrices(const T* address) {
  Fragment f;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(f.at[0]), "=r"(f.at[1]), "=r"(f.at[2]), "=r"(f.at[3])
               : "r"(shared_address(address)));
  return f;
}
template <typename Fragment, typename T>
__device__ __forceinline__ Fragment load_transposed(const T* address) {
  Fragment f;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(f.at[0]), "=r"(f.at[1]), "=r"(f.at[2]), "=r"(f.at[3])
               : "r"(shared_address(address)));
  return f;
}

// A tile of rows in shared memory. Rows are kWidth numbers and 16 bytes more, so that neighbouring rows lie
// in different banks.
template <typename T, int kWidth>
struct HalfTile {
  static constexpr int kPitch = kWidth + 8;
  T* data;

  __device__ T* row(int i) const { return data + i * kPitch; }
  // a: rows r … r + 15, columns k … k + 15.
  __device__ FragmentA a(int r, int k) const {
    const int lane = threadIdx.x % 32;
    return load_matrices<FragmentA>(row(r + lane % 16) + k + lane / 16 * 8);
  }
  // b of the transposed tile: its columns are rows n … n + 15 here, its rows columns k … k + 15.
  __device__ FragmentsB b_of_rows(int n, int k) const {
    const int lane = threadIdx.x % 32;
    return load_matrices<FragmentsB>(row(n + lane / 16 * 8 + lane % 8) + k + lane / 8 % 2 * 8);
  }
  // b: rows k … k + 15, columns n … n + 15.
  __device__ FragmentsB b(int k, int n) const {
    const int lane = threadIdx.x % 32;
    return load_transposed<FragmentsB>(row(k + lane % 16) + n + lane / 16 * 8);
  }
  // Rows first … first + rows of a tensor of `width` numbers a row, a multiple of 8; zeros past `count` and
  // `width`.
  template <typename Place>
  __device__ void load(const T* from, int rows, int first, int count, int width, const Place& place) const {
    constexpr int kChunks = kWidth / 8;
    for (int i = threadIdx.x; i < rows * kChunks; i += blockDim.x) {
      const int r = i / kChunks, column = i % kChunks * 8;
      uint4 value{};
      if (first + r < count && column < width)
        value = *reinterpret_cast<const uint4*>(from + place(first + r) * width + column);
      *reinterpret_cast<uint4*>(row(r) + column) = value;
    }
  }
};

}  // namespace trireme::cuda
