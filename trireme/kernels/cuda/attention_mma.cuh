// Attention in 16 bits on tensor cores: scores and their gradients stay in registers, sums are f32. A block
// of four warps takes 64 queries (forward, dq) or 64 keys (dk, dv) of one head, a warp 16 of them, and walks
// over the tiles of the other side. Heads are up to kWidth numbers wide, a multiple of 8.
#pragma once

#include "trireme/kernels/cuda/heads.cuh"
#include "trireme/kernels/cuda/mma.cuh"

namespace trireme::cuda {

inline constexpr int kMmaTile = 64, kMmaThreads = 128, kMmaWarpRows = 16;
inline constexpr float kLog2E = 1.44269504f;

// products[n] = rows r … r + 15 of a · rows 8n … 8n + 7 of b, over kWidth columns.
template <int kCount, typename T, int kWidth>
__device__ __forceinline__ void multiply_rows(const HalfTile<T, kWidth>& a, int r,
                                              const HalfTile<T, kWidth>& b, float (&products)[kCount][4]) {
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
    for (int i = 0; i < 4; ++i) products[n][i] = 0;
  }
#pragma unroll
  for (int k = 0; k < kWidth; k += 16) {
    const FragmentA left = a.a(r, k);
#pragma unroll
    for (int n = 0; n < kCount; n += 2) {
      const FragmentsB right = b.b_of_rows(8 * n, k);
      multiply_add(products[n], left, right.at[0], right.at[1], T());
      multiply_add(products[n + 1], left, right.at[2], right.at[3], T());
    }
  }
}

// sums += weights · values: weights are 16 × 8·kCount results of a product, values 8·kCount rows.
template <int kCount, typename T, int kWidth>
__device__ __forceinline__ void add_products(const float (&weights)[kCount][4],
                                             const HalfTile<T, kWidth>& values,
                                             float (&sums)[kWidth / 8][4]) {
#pragma unroll
  for (int k = 0; k < kCount; k += 2) {
    const FragmentA left = as_operand<T>(weights[k], weights[k + 1]);
#pragma unroll
    for (int n = 0; n < kWidth / 8; n += 2) {
      const FragmentsB right = values.b(8 * k, 8 * n);
      multiply_add(sums[n], left, right.at[0], right.at[1], T());
      multiply_add(sums[n + 1], left, right.at[2], right.at[3], T());
    }
  }
}

// Rows g and g + 8 of 16, scaled, to where place(row) says; rows past `count` and columns past `width` are
// left out.
template <typename T, int kWidth, typename Place>
__device__ __forceinline__ void store_rows(const float (&sums)[kWidth / 8][4], const float (&factor)[2],
                                           T* to, int first, int count, int width, const Place& place) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first + lane / 4 + 8 * half;
    if (row >= count) continue;
    T* const at = to + place(row) * width;
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n) {
      const int column = 8 * n + lane % 4 * 2;
      if (column < width)
        *reinterpret_cast<uint32_t*>(at + column) =
            rounded_pair(sums[n][2 * half] * factor[half], sums[n][2 * half + 1] * factor[half], T());
    }
  }
}

template <typename T, int kWidth>
__global__ void __launch_bounds__(kMmaThreads)
    attention_mma_kernel(Heads h, const T* q, const T* k, const T* v, T* o, float* lse) {
  extern __shared__ __align__(16) unsigned char memory[];
  constexpr int kTileElements = kMmaTile * HalfTile<T, kWidth>::kPitch;
  T* const shared = reinterpret_cast<T*>(memory);
  const HalfTile<T, kWidth> qs{shared}, ks{shared + kTileElements}, vs{shared + 2 * kTileElements};
  const int r = blockIdx.y % h.repeats, g = blockIdx.y / h.repeats % h.groups,
            b = blockIdx.y / (h.repeats * h.groups);
  h.take_place(b);
  const int first = blockIdx.x * kMmaTile, lane = threadIdx.x % 32,
            warp_row = threadIdx.x / 32 * kMmaWarpRows;
  const auto query = [&](int t) { return h.query(b, g, r, t); };
  const auto key = [&](int s) { return h.key(b, g, s); };
  qs.load(q, kMmaTile, first, h.queries, h.width, query);

  float sums[kWidth / 8][4] = {}, largest[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
  const float scale = h.scale * kLog2E;  // exponentials of 2
  const int keys = h.seen(min(first + kMmaTile, h.queries) - 1);
  int seen[2];
  for (int half = 0; half < 2; ++half) seen[half] = h.seen(first + warp_row + lane / 4 + 8 * half);
  for (int s = 0; s < keys; s += kMmaTile) {
    __syncthreads();
    ks.load(k, kMmaTile, s, h.keys, h.width, key);
    vs.load(v, kMmaTile, s, h.keys, h.width, key);
    __syncthreads();
    float scores[kMmaTile / 8][4];
    multiply_rows(qs, warp_row, ks, scores);
    float shrink[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float top = largest[half];
#pragma unroll
      for (int n = 0; n < kMmaTile / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& score = scores[n][2 * half + i];
          score = s + 8 * n + lane % 4 * 2 + i < seen[half] ? score * scale : -INFINITY;
          top = fmaxf(top, score);
        }
      }
      for (int other = 1; other < 4; other *= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, other));
      const float base = top == -INFINITY ? 0 : top;
      shrink[half] = exp2f(largest[half] - base);
      largest[half] = top;
      float sum = 0;
#pragma unroll
      for (int n = 0; n < kMmaTile / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& score = scores[n][2 * half + i];
          score = exp2f(score - base);
          sum += score;
        }
      }
      for (int other = 1; other < 4; other *= 2) sum += __shfl_xor_sync(~0u, sum, other);
      total[half] = total[half] * shrink[half] + sum;
    }
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n) {
      for (int i = 0; i < 4; ++i) sums[n][i] *= shrink[i / 2];
    }
    add_products<kMmaTile / 8>(scores, vs, sums);
  }
  float inverse[2];
  for (int half = 0; half < 2; ++half) {
    const int t = first + warp_row + lane / 4 + 8 * half;
    inverse[half] = total[half] == 0 ? 0 : 1 / total[half];
    if (lse && lane % 4 == 0 && t < h.queries)
      lse[h.statistic(b, g, r, t)] = (largest[half] + log2f(total[half])) / kLog2E;
  }
  store_rows<T, kWidth>(sums, inverse, o, first + warp_row, h.queries, h.width, query);
}

template <typename T, int kWidth>
__global__ void __launch_bounds__(kMmaThreads) query_gradient_mma_kernel(Heads h, AttentionGradient<T> x) {
  extern __shared__ __align__(16) unsigned char memory[];
  constexpr int kTileElements = kMmaTile * HalfTile<T, kWidth>::kPitch;
  T* const shared = reinterpret_cast<T*>(memory);
  const HalfTile<T, kWidth> qs{shared}, gs{shared + kTileElements}, ks{shared + 2 * kTileElements},
      vs{shared + 3 * kTileElements};
  const int r = blockIdx.y % h.repeats, g = blockIdx.y / h.repeats % h.groups,
            b = blockIdx.y / (h.repeats * h.groups);
  const int first = blockIdx.x * kMmaTile, lane = threadIdx.x % 32,
            warp_row = threadIdx.x / 32 * kMmaWarpRows;
  const auto query = [&](int t) { return h.query(b, g, r, t); };
  const auto key = [&](int s) { return h.key(b, g, s); };
  qs.load(x.q, kMmaTile, first, h.queries, h.width, query);
  gs.load(x.gradient, kMmaTile, first, h.queries, h.width, query);
  float lse[2] = {0, 0}, delta[2] = {0, 0};
  int seen[2] = {0, 0};
  for (int half = 0; half < 2; ++half) {
    const int t = first + warp_row + lane / 4 + 8 * half;
    if (t >= h.queries) continue;
    lse[half] = x.lse[h.statistic(b, g, r, t)] * kLog2E;
    delta[half] = x.delta[h.statistic(b, g, r, t)];
    seen[half] = h.seen(t);
  }
  float sums[kWidth / 8][4] = {};
  const float scale = h.scale * kLog2E;
  const int keys = h.seen(min(first + kMmaTile, h.queries) - 1);
  for (int s = 0; s < keys; s += kMmaTile) {
    __syncthreads();
    ks.load(x.k, kMmaTile, s, h.keys, h.width, key);
    vs.load(x.v, kMmaTile, s, h.keys, h.width, key);
    __syncthreads();
    float scores[kMmaTile / 8][4], slopes[kMmaTile / 8][4];
    multiply_rows(qs, warp_row, ks, scores);
    multiply_rows(gs, warp_row, vs, slopes);
#pragma unroll
    for (int n = 0; n < kMmaTile / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const bool there = s + 8 * n + lane % 4 * 2 + i % 2 < seen[i / 2];
        const float p = there ? exp2f(scores[n][i] * scale - lse[i / 2]) : 0;
        slopes[n][i] = there ? h.scale * p * (slopes[n][i] - delta[i / 2]) : 0;
      }
    }
    add_products<kMmaTile / 8>(slopes, ks, sums);
  }
  constexpr float kOne[2] = {1, 1};
  store_rows<T, kWidth>(sums, kOne, x.dq, first + warp_row, h.queries, h.width, query);
}

// Rows are keys here and columns queries, kQueries at a time: as many as registers have room for.
template <typename T, int kWidth>
inline constexpr int kMmaQueries = kWidth <= 64 ? 64 : 32;

template <typename T, int kWidth>
__global__ void __launch_bounds__(kMmaThreads) key_gradient_mma_kernel(Heads h, AttentionGradient<T> x) {
  extern __shared__ __align__(16) unsigned char memory[];
  constexpr int kQueries = kMmaQueries<T, kWidth>, kPitch = HalfTile<T, kWidth>::kPitch;
  T* const shared = reinterpret_cast<T*>(memory);
  const HalfTile<T, kWidth> ks{shared}, vs{shared + kMmaTile * kPitch}, qs{shared + 2 * kMmaTile * kPitch},
      gs{qs.data + kQueries * kPitch};
  float* const lse = reinterpret_cast<float*>(gs.data + kQueries * kPitch);
  float* const delta = lse + kQueries;
  const int g = blockIdx.y % h.groups, b = blockIdx.y / h.groups;
  const int first = blockIdx.x * kMmaTile, lane = threadIdx.x % 32,
            warp_row = threadIdx.x / 32 * kMmaWarpRows;
  const auto key = [&](int s) { return h.key(b, g, s); };
  ks.load(x.k, kMmaTile, first, h.keys, h.width, key);
  vs.load(x.v, kMmaTile, first, h.keys, h.width, key);
  float dk[kWidth / 8][4] = {}, dv[kWidth / 8][4] = {};
  const float scale = h.scale * kLog2E;
  const int rows[2] = {first + warp_row + lane / 4, first + warp_row + lane / 4 + 8};
  for (int r = 0; r < h.repeats; ++r) {
    const auto query = [&](int t) { return h.query(b, g, r, t); };
    for (int t = h.first_seeing(first) / kQueries * kQueries; t < h.queries; t += kQueries) {
      __syncthreads();
      qs.load(x.q, kQueries, t, h.queries, h.width, query);
      gs.load(x.gradient, kQueries, t, h.queries, h.width, query);
      for (int i = threadIdx.x; i < kQueries; i += kMmaThreads) {
        const int64_t at = h.statistic(b, g, r, t + i);
        lse[i] = t + i < h.queries ? x.lse[at] * kLog2E : 0;
        delta[i] = t + i < h.queries ? x.delta[at] : 0;
      }
      __syncthreads();
      float scores[kQueries / 8][4], slopes[kQueries / 8][4];
      multiply_rows(ks, warp_row, qs, scores);
      multiply_rows(vs, warp_row, gs, slopes);
#pragma unroll
      for (int n = 0; n < kQueries / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int column = 8 * n + lane % 4 * 2 + i % 2;
          const bool there = t + column < h.queries && rows[i / 2] < h.seen(t + column);
          const float p = there ? exp2f(scores[n][i] * scale - lse[column]) : 0;
          scores[n][i] = p;
          slopes[n][i] = there ? h.scale * p * (slopes[n][i] - delta[column]) : 0;
        }
      }
      add_products<kQueries / 8>(scores, gs, dv);
      add_products<kQueries / 8>(slopes, qs, dk);
    }
  }
  constexpr float kOne[2] = {1, 1};
  store_rows<T, kWidth>(dk, kOne, x.dk, first + warp_row, h.keys, h.width, key);
  store_rows<T, kWidth>(dv, kOne, x.dv, first + warp_row, h.keys, h.width, key);
}

template <typename T, int kWidth>
size_t tiles_bytes(int rows) {
  return static_cast<size_t>(rows) * HalfTile<T, kWidth>::kPitch * sizeof(T);
}

}  // namespace trireme::cuda
