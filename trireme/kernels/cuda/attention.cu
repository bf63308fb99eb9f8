// Softmax attention without the matrix of scores in memory. Where cuDNN is there it takes what it can
// (cudnn_attention.h). 16-bit heads of up to 128 numbers, a multiple of 8, go to the tensor cores
// (attention_mma.cuh); what follows here serves any format and shape. A block takes
// a tile of queries (forward, dq) or of keys (dk, dv) of one head and walks over the tiles of the other side,
// all in f32 through shared memory; each result has one block, so sums have one order. Threads form a 16 × 16
// grid; thread (ty, tx) has the rows ty, ty + 16, … and the columns tx, tx + 16, … of a tile.
#include <algorithm>

#include "trireme/kernels/composed.h"
#include "trireme/kernels/cuda/attention_mma.cuh"
#include "trireme/kernels/cuda/cudnn_attention.h"
#include "trireme/kernels/cuda/device.cuh"
#include "trireme/kernels/cuda/heads.cuh"
#include "trireme/kernels/cuda/table.h"

namespace trireme::cuda {
namespace {

constexpr int kSide = 16, kThreads = kSide * kSide;

// A tile of kTile rows of `width` floats in shared memory. Rows are of odd length, so that the rows that
// neighbouring threads read lie in different banks.
template <int kTile>
struct Tile {
  float* data;
  int pitch;
  __device__ float* row(int i) const { return data + i * pitch; }
};
__host__ __device__ constexpr int odd(int width) {
  return width | 1;
}

// Rows first … first + kTile of a tensor, zeros past `count`; place(i) is where row i begins.
template <int kTile, typename T, typename Place>
__device__ void load_tile(const Tile<kTile>& tile, const T* from, int first, int count, int width,
                          const Place& place) {
  for (int i = threadIdx.x / 32; i < kTile; i += kThreads / 32) {
    const bool there = first + i < count;
    const int64_t at = there ? place(first + i) * width : 0;
    for (int d = threadIdx.x % 32; d < width; d += 32) tile.row(i)[d] = there ? widen(from[at + d]) : 0.0f;
  }
}

// products[i][j] = row ty + 16 i of a · row tx + 16 j of b.
template <int kTile>
__device__ void multiply_rows(const Tile<kTile>& a, const Tile<kTile>& b, int width,
                              float (&products)[kTile / kSide][kTile / kSide]) {
  constexpr int kEach = kTile / kSide;
  const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
  for (int i = 0; i < kEach; ++i) {
    for (int j = 0; j < kEach; ++j) products[i][j] = 0;
  }
  for (int d = 0; d < width; ++d) {
    float left[kEach], right[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      left[i] = a.row(ty + kSide * i)[d];
      right[i] = b.row(tx + kSide * i)[d];
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int j = 0; j < kEach; ++j) products[i][j] = fmaf(left[i], right[j], products[i][j]);
    }
  }
}

// sums[i][c] += Σ_k weights(ty + 16 i, k) · column tx + 16 c of row k of values. kRowsOfWeights:
// weights[row][k], otherwise weights[k][row].
enum class Weights { kByRow, kByColumn };
template <int kTile, int kColumns, Weights kWeights>
__device__ void add_products(const Tile<kTile>& weights, const Tile<kTile>& values, int width,
                             float (&sums)[kTile / kSide][kColumns]) {
  constexpr int kEach = kTile / kSide;
  const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
  for (int k = 0; k < kTile; ++k) {
    float weight[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int row = ty + kSide * i;
      weight[i] = kWeights == Weights::kByRow ? weights.row(row)[k] : weights.row(k)[row];
    }
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int column = tx + kSide * c;
      const float value = column < width ? values.row(k)[column] : 0.0f;
#pragma unroll
      for (int i = 0; i < kEach; ++i) sums[i][c] = fmaf(weight[i], value, sums[i][c]);
    }
  }
}

// The reduction over the 16 threads of a row of the grid.
template <typename Op>
__device__ float row_reduce(float value, Op op) {
  for (int lane = kSide / 2; lane > 0; lane /= 2) value = op(value, __shfl_xor_sync(~0u, value, lane));
  return value;
}

template <typename T, int kTile, int kColumns>
__global__ void __launch_bounds__(kThreads)
    attention_kernel(Heads h, const T* q, const T* k, const T* v, T* o, float* lse) {
  constexpr int kEach = kTile / kSide;
  extern __shared__ float shared[];
  const int pitch = odd(h.width);
  const Tile<kTile> qs{shared, pitch}, ks{qs.data + kTile * pitch, pitch}, vs{ks.data + kTile * pitch, pitch},
      ps{vs.data + kTile * pitch, odd(kTile)};
  const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
  const int r = blockIdx.y % h.repeats, g = blockIdx.y / h.repeats % h.groups,
            b = blockIdx.y / (h.repeats * h.groups);
  h.take_place(b);
  const int first = blockIdx.x * kTile;
  const auto query = [&](int t) { return h.query(b, g, r, t); };
  const auto key = [&](int s) { return h.key(b, g, s); };
  load_tile(qs, q, first, h.queries, h.width, query);

  float sums[kEach][kColumns] = {}, largest[kEach], total[kEach];
  for (int i = 0; i < kEach; ++i) {
    largest[i] = -INFINITY;
    total[i] = 0;
  }
  const int keys = h.seen(min(first + kTile, h.queries) - 1);
  for (int s = 0; s < keys; s += kTile) {
    __syncthreads();
    load_tile(ks, k, s, h.keys, h.width, key);
    load_tile(vs, v, s, h.keys, h.width, key);
    __syncthreads();
    float scores[kEach][kEach];
    multiply_rows(qs, ks, h.width, scores);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int row = ty + kSide * i, seen = h.seen(first + row);
      float top = -INFINITY;
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        scores[i][j] = s + tx + kSide * j < seen ? scores[i][j] * h.scale : -INFINITY;
        top = fmaxf(top, scores[i][j]);
      }
      top = fmaxf(row_reduce(top, Max()), largest[i]);
      const float base = top == -INFINITY ? 0 : top, shrink = expf(largest[i] - base);
      float sum = 0;
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const float p = expf(scores[i][j] - base);
        ps.row(row)[tx + kSide * j] = p;
        sum += p;
      }
      total[i] = total[i] * shrink + row_reduce(sum, Add());
      largest[i] = top;
#pragma unroll
      for (int c = 0; c < kColumns; ++c) sums[i][c] *= shrink;
    }
    __syncthreads();
    add_products<kTile, kColumns, Weights::kByRow>(ps, vs, h.width, sums);
  }
  for (int i = 0; i < kEach; ++i) {
    const int t = first + ty + kSide * i;
    if (t >= h.queries) continue;
    const int64_t at = query(t);
    const float inverse = total[i] > 0 ? 1 / total[i] : total[i] == 0 ? 0 : total[i];  // a NaN stays one
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int column = tx + kSide * c;
      if (column < h.width) o[at * h.width + column] = narrow<T>(sums[i][c] * inverse);
    }
    if (tx == 0 && lse) lse[h.statistic(b, g, r, t)] = largest[i] + logf(total[i]);
  }
}

// delta = Σ do·o of each query: a warp each.
template <typename T>
__global__ void delta_kernel(Heads h, const T* gradient, const T* o, float* delta, int64_t rows) {
  const int64_t row = int64_t{blockIdx.x} * (blockDim.x / 32) + threadIdx.x / 32;
  if (row >= rows) return;
  const int width = h.width, r = row % h.repeats, g = row / h.repeats % h.groups,
            t = row / (h.repeats * h.groups) % h.queries,
            b = row / (int64_t{h.repeats} * h.groups * h.queries);
  float sum = 0;
  for (int d = threadIdx.x % 32; d < width; d += 32)
    sum += widen(gradient[row * width + d]) * widen(o[row * width + d]);
  sum = warp_reduce(sum, Add());
  if (threadIdx.x % 32 == 0) delta[h.statistic(b, g, r, t)] = sum;
}

// P and dS of a tile of queries (rows) and keys (columns), into shared memory; zero outside.
template <int kTile>
__device__ void scores_and_slopes(const Heads& h, const Tile<kTile>& qs, const Tile<kTile>& ks,
                                  const Tile<kTile>& vs, const Tile<kTile>& gs, int first_query,
                                  int first_key, const float* lse, const float* delta, const Tile<kTile>& ps,
                                  const Tile<kTile>& ds) {
  constexpr int kEach = kTile / kSide;
  const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
  float scores[kEach][kEach], slopes[kEach][kEach];
  multiply_rows(qs, ks, h.width, scores);
  multiply_rows(gs, vs, h.width, slopes);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int row = ty + kSide * i, t = first_query + row, seen = t < h.queries ? h.seen(t) : 0;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int column = tx + kSide * j;
      const bool there = first_key + column < seen;
      const float p = there ? expf(scores[i][j] * h.scale - lse[row]) : 0;
      ps.row(row)[column] = p;
      ds.row(row)[column] = there ? h.scale * p * (slopes[i][j] - delta[row]) : 0;
    }
  }
}

// The statistics of a tile of queries; those of its head begin at `head`.
template <int kTile>
__device__ void load_rows(const float* lse, const float* delta, int first, int count, int64_t head,
                          float* lse_rows, float* delta_rows) {
  for (int i = threadIdx.x; i < kTile; i += kThreads) {
    const bool there = first + i < count;
    lse_rows[i] = there ? lse[head + first + i] : 0;
    delta_rows[i] = there ? delta[head + first + i] : 0;
  }
}

template <int kTile>
struct GradientTiles {
  Tile<kTile> qs, ks, vs, gs, ps, ds;
  float *lse, *delta;
  __device__ GradientTiles(float* shared, int width) {
    const int pitch = odd(width);
    qs = {shared, pitch};
    ks = {qs.data + kTile * pitch, pitch};
    vs = {ks.data + kTile * pitch, pitch};
    gs = {vs.data + kTile * pitch, pitch};
    ps = {gs.data + kTile * pitch, odd(kTile)};
    ds = {ps.data + kTile * odd(kTile), odd(kTile)};
    lse = ds.data + kTile * odd(kTile);
    delta = lse + kTile;
  }
  static size_t bytes(int width) {
    return (4 * kTile * odd(width) + 2 * kTile * odd(kTile) + 2 * kTile) * sizeof(float);
  }
};

template <typename T, int kTile, int kColumns>
__global__ void __launch_bounds__(kThreads) key_gradient_kernel(Heads h, AttentionGradient<T> x) {
  constexpr int kEach = kTile / kSide;
  extern __shared__ float shared[];
  const GradientTiles<kTile> tiles(shared, h.width);
  const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
  const int g = blockIdx.y % h.groups, b = blockIdx.y / h.groups, first = blockIdx.x * kTile;
  const auto key = [&](int s) { return h.key(b, g, s); };
  load_tile(tiles.ks, x.k, first, h.keys, h.width, key);
  load_tile(tiles.vs, x.v, first, h.keys, h.width, key);
  float dk[kEach][kColumns] = {}, dv[kEach][kColumns] = {};
  for (int r = 0; r < h.repeats; ++r) {
    const auto query = [&](int t) { return h.query(b, g, r, t); };
    for (int t = h.first_seeing(first) / kTile * kTile; t < h.queries; t += kTile) {
      __syncthreads();
      load_tile(tiles.qs, x.q, t, h.queries, h.width, query);
      load_tile(tiles.gs, x.gradient, t, h.queries, h.width, query);
      load_rows<kTile>(x.lse, x.delta, t, h.queries, h.statistic(b, g, r, 0), tiles.lse, tiles.delta);
      __syncthreads();
      scores_and_slopes(h, tiles.qs, tiles.ks, tiles.vs, tiles.gs, t, first, tiles.lse, tiles.delta, tiles.ps,
                        tiles.ds);
      __syncthreads();
      add_products<kTile, kColumns, Weights::kByColumn>(tiles.ps, tiles.gs, h.width, dv);
      add_products<kTile, kColumns, Weights::kByColumn>(tiles.ds, tiles.qs, h.width, dk);
    }
  }
  for (int i = 0; i < kEach; ++i) {
    const int s = first + ty + kSide * i;
    if (s >= h.keys) continue;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int column = tx + kSide * c;
      if (column >= h.width) continue;
      x.dk[key(s) * h.width + column] = narrow<T>(dk[i][c]);
      x.dv[key(s) * h.width + column] = narrow<T>(dv[i][c]);
    }
  }
}

template <typename T, int kTile, int kColumns>
__global__ void __launch_bounds__(kThreads) query_gradient_kernel(Heads h, AttentionGradient<T> x) {
  constexpr int kEach = kTile / kSide;
  extern __shared__ float shared[];
  const GradientTiles<kTile> tiles(shared, h.width);
  const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
  const int r = blockIdx.y % h.repeats, g = blockIdx.y / h.repeats % h.groups,
            b = blockIdx.y / (h.repeats * h.groups);
  const int first = blockIdx.x * kTile;
  const auto query = [&](int t) { return h.query(b, g, r, t); };
  const auto key = [&](int s) { return h.key(b, g, s); };
  load_tile(tiles.qs, x.q, first, h.queries, h.width, query);
  load_tile(tiles.gs, x.gradient, first, h.queries, h.width, query);
  load_rows<kTile>(x.lse, x.delta, first, h.queries, h.statistic(b, g, r, 0), tiles.lse, tiles.delta);
  float dq[kEach][kColumns] = {};
  const int keys = h.seen(min(first + kTile, h.queries) - 1);
  for (int s = 0; s < keys; s += kTile) {
    __syncthreads();
    load_tile(tiles.ks, x.k, s, h.keys, h.width, key);
    load_tile(tiles.vs, x.v, s, h.keys, h.width, key);
    __syncthreads();
    scores_and_slopes(h, tiles.qs, tiles.ks, tiles.vs, tiles.gs, first, s, tiles.lse, tiles.delta, tiles.ps,
                      tiles.ds);
    __syncthreads();
    add_products<kTile, kColumns, Weights::kByRow>(tiles.ds, tiles.ks, h.width, dq);
  }
  for (int i = 0; i < kEach; ++i) {
    const int t = first + ty + kSide * i;
    if (t >= h.queries) continue;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int column = tx + kSide * c;
      if (column < h.width) x.dq[query(t) * h.width + column] = narrow<T>(dq[i][c]);
    }
  }
}

template <int kValue>
using Number = std::integral_constant<int, kValue>;

// Calls body(tile, columns): tiles as large as shared memory takes, columns enough for the width.
template <typename Body>
void with_tiles(const Heads& h, const Body& body) {
  if (h.width <= 64) return body(Number<64>(), Number<4>());
  if (h.width <= 128) return body(Number<64>(), Number<8>());
  if (h.width <= 256) return body(Number<32>(), Number<16>());
  throw DeviceError(
      fmt::format("heads of {} numbers are wider than the 256 that attention on a GPU takes", h.width));
}

template <typename Kernel, typename... Arguments>
void launch(Kernel kernel, dim3 grid, int threads, size_t bytes, cudaStream_t stream,
            const Arguments&... arguments) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        "shared memory of attention");
  kernel<<<grid, threads, bytes, stream>>>(arguments...);
}

// Calls body(width) for heads that the tensor cores take; says whether it did.
template <typename T, typename Body>
bool on_tensor_cores(const Heads& h, const Body& body) {
  if constexpr (std::is_same_v<T, float>) {
    return false;
  } else {
    if (h.width % 8 != 0 || h.width > 128) return false;
    h.width <= 64 ? body(Number<64>()) : body(Number<128>());
    return true;
  }
}

dim3 query_grid(const Heads& h, int tile) {
  return {blocks(ceil_div(h.queries, tile)), blocks(h.batch * h.groups * h.repeats)};
}
dim3 key_grid(const Heads& h, int tile) {
  return {blocks(ceil_div(h.keys, tile)), blocks(h.batch * h.groups)};
}

void attend(const KernelContext& context, const Heads& h, float* lse) {
  if (context.inputs[0].elements() == 0) return;
  with_format(context.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *const q = in<T>(context, 0), *const k = in<T>(context, 1), *const v = in<T>(context, 2);
    const bool done = on_tensor_cores<T>(h, [&](auto width) {
      if constexpr (!std::is_same_v<T, float>)
        launch(attention_mma_kernel<T, width>, query_grid(h, kMmaTile), kMmaThreads,
               tiles_bytes<T, width>(3 * kMmaTile), stream_of(context), h, q, k, v, out<T>(context, 0), lse);
    });
    if (done) return;
    with_tiles(h, [&](auto tile, auto columns) {
      const size_t bytes = (3 * tile * odd(h.width) + tile * odd(tile)) * sizeof(float);
      launch(attention_kernel<T, tile, columns>, query_grid(h, tile), kThreads, bytes, stream_of(context), h,
             q, k, v, out<T>(context, 0), lse);
    });
  });
}

void attention(const KernelContext& context) {
  const Heads h(context.inputs[0].shape, context.inputs[1].shape, context.attrs);
  const AttentionArrays x{context.inputs[0].data, context.inputs[1].data, context.inputs[2].data,
                          context.outputs[0].data, context.outputs[1].data};
  if (!cudnn_attention(h, context.inputs[0].dtype, HeadRows::kApart, x, context_of(context),
                       context.workspace))
    attend(context, h, out<float>(context, 1));
}
size_t attention_workspace(const KernelShape& shape) {
  return cudnn_attention_workspace(Heads(shape.inputs[0].shape, shape.inputs[1].shape, shape.attrs),
                                   shape.inputs[0].dtype);
}

void attention_at(const KernelContext& context) {
  Heads h(context.inputs[0].shape, context.inputs[1].shape, context.attrs);
  h.causal = true;
  h.lines = in<int32_t>(context, 3);
  h.positions = in<int32_t>(context, 4);
  attend(context, h, nullptr);
}

void attention_grad(const KernelContext& context) {
  const Heads h(context.inputs[1].shape, context.inputs[2].shape, context.attrs);
  if (context.inputs[2].elements() == 0) return;
  const AttentionGradArrays arrays{context.inputs[0].data,  context.inputs[1].data,  context.inputs[2].data,
                                   context.inputs[3].data,  context.inputs[4].data,  context.inputs[5].data,
                                   context.outputs[0].data, context.outputs[1].data, context.outputs[2].data};
  if (cudnn_attention_grad(h, context.inputs[0].dtype, HeadRows::kApart, arrays, context_of(context),
                           context.workspace))
    return;
  float* const delta = reinterpret_cast<float*>(context.workspace);
  const int64_t rows = context.inputs[5].elements();
  const cudaStream_t stream = stream_of(context);
  with_format(context.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const AttentionGradient<T> x{in<T>(context, 0),  in<T>(context, 1),     in<T>(context, 2),
                                 in<T>(context, 3),  in<float>(context, 5), delta,
                                 out<T>(context, 0), out<T>(context, 1),    out<T>(context, 2)};
    constexpr int kWarps = 4;
    delta_kernel<<<blocks(ceil_div(rows, kWarps)), 32 * kWarps, 0, stream>>>(h, x.gradient, in<T>(context, 4),
                                                                             delta, rows);
    const bool done = on_tensor_cores<T>(h, [&](auto width) {
      if constexpr (!std::is_same_v<T, float>) {
        constexpr int kQueries = kMmaQueries<T, width>;
        launch(key_gradient_mma_kernel<T, width>, key_grid(h, kMmaTile), kMmaThreads,
               tiles_bytes<T, width>(2 * kMmaTile + 2 * kQueries) + 2 * kQueries * sizeof(float), stream, h,
               x);
        launch(query_gradient_mma_kernel<T, width>, query_grid(h, kMmaTile), kMmaThreads,
               tiles_bytes<T, width>(4 * kMmaTile), stream, h, x);
      }
    });
    if (done) return;
    with_tiles(h, [&](auto tile, auto columns) {
      const size_t bytes = GradientTiles<tile>::bytes(h.width);
      launch(key_gradient_kernel<T, tile, columns>, key_grid(h, tile), kThreads, bytes, stream, h, x);
      launch(query_gradient_kernel<T, tile, columns>, query_grid(h, tile), kThreads, bytes, stream, h, x);
    });
  });
}

size_t attention_grad_workspace(const KernelShape& shape) {
  const Heads h(shape.inputs[1].shape, shape.inputs[2].shape, shape.attrs);
  return std::max(static_cast<size_t>(shape.inputs[5].shape.elements()) * sizeof(float),
                  cudnn_attention_grad_workspace(h, shape.inputs[0].dtype));
}

// q, k and v as cuDNN takes them, side by side; for others they are taken apart.
Heads packed_heads(const Shape& qkv, const Attrs& attrs) {
  const int64_t width = attrs.integer("width"), heads = qkv[2] / 3 / width;
  return Heads({qkv[0], qkv[1], heads, 1, width}, {qkv[0], qkv[1], heads, width}, attrs);
}
// Where part `part` of the first row begins.
template <typename Byte>
Byte* packed_part(Byte* qkv, const Heads& h, DType dtype, size_t part) {
  return qkv + part * static_cast<size_t>(h.groups * h.width) * size_of(dtype);
}

using ApartForward = ComposedKernel<cuda_kernels, kAttentionPacked>;
using ApartBackward = ComposedKernel<cuda_kernels, kAttentionPackedGrad>;

void attention_packed(const KernelContext& context) {
  const TensorView& qkv = context.inputs[0];
  const Heads h = packed_heads(qkv.shape, context.attrs);
  const auto part = [&](size_t i) {
    return packed_part(static_cast<const std::byte*>(qkv.data), h, qkv.dtype, i);
  };
  if (!cudnn_attention(h, qkv.dtype, HeadRows::kPacked,
                       {part(0), part(1), part(2), context.outputs[0].data, context.outputs[1].data},
                       context_of(context), context.workspace))
    ApartForward::run(context);
}

void attention_packed_grad(const KernelContext& context) {
  const TensorView &qkv = context.inputs[1], &dqkv = context.outputs[0];
  const Heads h = packed_heads(qkv.shape, context.attrs);
  const auto part = [&](size_t i) {
    return packed_part(static_cast<const std::byte*>(qkv.data), h, qkv.dtype, i);
  };
  const auto made = [&](size_t i) {
    return packed_part(static_cast<std::byte*>(dqkv.data), h, qkv.dtype, i);
  };
  if (!cudnn_attention_grad(h, qkv.dtype, HeadRows::kPacked,
                            {context.inputs[0].data, part(0), part(1), part(2), context.inputs[2].data,
                             context.inputs[3].data, made(0), made(1), made(2)},
                            context_of(context), context.workspace))
    ApartBackward::run(context);
}

bool packed_gains(const KernelShape& shape) {
  return cudnn_takes(packed_heads(shape.inputs[0].shape, shape.attrs), shape.inputs[0].dtype);
}
bool packed_grad_gains(const KernelShape& shape) {
  return cudnn_takes(packed_heads(shape.inputs[1].shape, shape.attrs), shape.inputs[1].dtype);
}

}  // namespace

void add_attention(KernelTable& table) {
  add_for_all_formats(table, "attention", {attention, attention_workspace});
  add_for_all_formats(table, "attention_at", {attention_at});
  add_for_all_formats(table, "attention_grad", {attention_grad, attention_grad_workspace});
  // With room for what is taken apart, should cuDNN find no plan.
  add_for_all_formats(
      table, "attention_packed",
      {.run = attention_packed, .workspace_bytes = ApartForward::workspace, .gains = packed_gains});
  add_for_all_formats(table, "attention_packed_grad",
                      {.run = attention_packed_grad,
                       .workspace_bytes = ApartBackward::workspace,
                       .gains = packed_grad_gains});
}

}  // namespace trireme::cuda
