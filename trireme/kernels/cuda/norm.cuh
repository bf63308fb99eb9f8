// What layer_norm and rms_norm share. Rows that fit are held by a warp in registers and read once; longer
// ones are a block's, and stay in the caches while they are read again. Gradients of gain and bias are sums
// over rows: each block's own, and then the blocks' in order. How many there are is a function of the shape
// alone.
#pragma once

#include <algorithm>

#include "trireme/kernels/cuda/device.cuh"

namespace trireme::cuda {

enum class Centre { kMean, kNone };  // layer_norm; rms_norm

inline constexpr int kNormWarps = 8, kNormThreads = 32 * kNormWarps;
inline constexpr int kMostParts = 264;  // blocks that sum over rows: two for each multiprocessor of a Hopper

template <int kValue>
using NormNumber = std::integral_constant<int, kValue>;

// Calls body(packs of a lane, elements of a pack) for rows that a warp can hold; says whether it did.
template <typename T, typename Body>
bool with_held_row(int64_t width, const Body& body) {
  if (width == 0 || width % kPack<T> != 0) return false;
  const int64_t packs = ceil_div(width / kPack<T>, 32);
  if (packs == 1) return body(NormNumber<1>()), true;
  if (packs == 2) return body(NormNumber<2>()), true;
  if (packs == 3) return body(NormNumber<3>()), true;
  if (packs == 4) return body(NormNumber<4>()), true;
  if (packs <= 6) return body(NormNumber<6>()), true;
  if (packs <= 8) return body(NormNumber<8>()), true;
  return false;
}

inline int norm_threads(int64_t width) {
  return width <= 128 ? 32 : width <= 1024 ? 128 : 256;
}

template <typename T>
struct NormRows {
  const T *x, *residual;  // residual: null where there is none
  const T *gain, *bias;   // bias: of layer_norm
  T *sum, *y;             // sum: x + residual
  float *mean, *rstd;     // mean: of layer_norm
  int64_t rows, width;
  float eps;
};

// Statistics are those of the sum as it is stored. It is written last, with y: either may lie over x or the
// residual.
template <typename T, Centre kCentre, int kHeld>
__global__ void __launch_bounds__(kNormThreads) norm_held_kernel(NormRows<T> n) {
  constexpr int kCount = kPack<T>;
  const int64_t row = int64_t{blockIdx.x} * kNormWarps + threadIdx.x / 32, first = row * n.width;
  const int lane = threadIdx.x % 32;
  if (row >= n.rows) return;
  float x[kHeld][kCount];
  float total = 0;
#pragma unroll
  for (int p = 0; p < kHeld; ++p) {
    const int64_t i = (p * 32 + lane) * kCount;
    if (i < n.width) {
      load_floats(n.x + first + i, x[p]);
      if (n.residual) {
        float more[kCount];
        load_floats(n.residual + first + i, more);
#pragma unroll
        for (int j = 0; j < kCount; ++j) x[p][j] = widen(narrow<T>(x[p][j] + more[j]));
      }
#pragma unroll
      for (int j = 0; j < kCount; ++j) total += x[p][j];
    }
  }
  const float count = static_cast<float>(n.width);
  const float mean = kCentre == Centre::kMean ? warp_reduce(total, Add()) / count : 0;
  float squares = 0;
#pragma unroll
  for (int p = 0; p < kHeld; ++p) {
    if ((p * 32 + lane) * kCount < n.width) {
#pragma unroll
      for (int j = 0; j < kCount; ++j) squares += (x[p][j] - mean) * (x[p][j] - mean);
    }
  }
  const float rstd = 1 / sqrtf(warp_reduce(squares, Add()) / count + n.eps);
#pragma unroll
  for (int p = 0; p < kHeld; ++p) {
    const int64_t i = (p * 32 + lane) * kCount;
    if (i < n.width) {
      float gain[kCount], bias[kCount] = {}, y[kCount];
      load_floats(n.gain + i, gain);
      if (kCentre == Centre::kMean) load_floats(n.bias + i, bias);
#pragma unroll
      for (int j = 0; j < kCount; ++j) y[j] = (x[p][j] - mean) * rstd * gain[j] + bias[j];
      if (n.residual) store_floats(n.sum + first + i, x[p]);
      store_floats(n.y + first + i, y);
    }
  }
  if (lane == 0) {
    if (kCentre == Centre::kMean) n.mean[row] = mean;
    n.rstd[row] = rstd;
  }
}

// A block takes a row.
template <typename T, Centre kCentre, int kCount>
__global__ void norm_kernel(NormRows<T> rows) {
  const int64_t row = blockIdx.x, first = row * rows.width;
  const int64_t begin = int64_t{threadIdx.x} * kCount, step = int64_t{blockDim.x} * kCount;
  const auto load = [&](int64_t i, float(&values)[kCount]) {
    load_floats(rows.x + first + i, values);
    if (!rows.residual) return;
    float more[kCount];
    load_floats(rows.residual + first + i, more);
#pragma unroll
    for (int j = 0; j < kCount; ++j) values[j] = widen(narrow<T>(values[j] + more[j]));
  };
  float mean = 0, squares = 0, x[kCount];
  if (kCentre == Centre::kMean) {
    float total = 0;
    for (int64_t i = begin; i < rows.width; i += step) {
      load(i, x);
#pragma unroll
      for (int j = 0; j < kCount; ++j) total += x[j];
    }
    mean = block_sum(total) / static_cast<float>(rows.width);
  }
  for (int64_t i = begin; i < rows.width; i += step) {
    load(i, x);
#pragma unroll
    for (int j = 0; j < kCount; ++j) squares += (x[j] - mean) * (x[j] - mean);
  }
  const float rstd = 1 / sqrtf(block_sum(squares) / static_cast<float>(rows.width) + rows.eps);
  for (int64_t i = begin; i < rows.width; i += step) {
    float gain[kCount], bias[kCount] = {}, y[kCount];
    load(i, x);
    load_floats(rows.gain + i, gain);
    if (kCentre == Centre::kMean) load_floats(rows.bias + i, bias);
#pragma unroll
    for (int j = 0; j < kCount; ++j) y[j] = (x[j] - mean) * rstd * gain[j] + bias[j];
    if (rows.residual) store_floats(rows.sum + first + i, x);
    store_floats(rows.y + first + i, y);
  }
  if (threadIdx.x == 0) {
    if (kCentre == Centre::kMean) rows.mean[row] = mean;
    rows.rstd[row] = rstd;
  }
}

template <typename T, Centre kCentre>
void norm_rows(const KernelContext& context, const NormRows<T>& rows) {
  const cudaStream_t stream = stream_of(context);
  const bool held = with_held_row<T>(rows.width, [&](auto packs) {
    norm_held_kernel<T, kCentre, packs>
        <<<blocks(ceil_div(rows.rows, kNormWarps)), kNormThreads, 0, stream>>>(rows);
  });
  if (held) return;
  with_pack<T>(rows.width, [&](auto pack) {
    norm_kernel<T, kCentre, pack><<<blocks(rows.rows), norm_threads(rows.width / pack), 0, stream>>>(rows);
  });
}

template <typename T>
struct NormGrad {
  const T *dy, *x, *gain;
  const float *mean, *rstd;
  T *dx, *dgain, *dbias;
  int64_t rows, width;
  const T* more = nullptr;  // where given, it is added to dx, which may lie over it
  T* total = nullptr;       // where given, the sum of dx over rows
};

// Sums over rows that a gradient makes: of dy·x̂ and, with a centre, of dy and of dx.
template <Centre kCentre>
inline constexpr int kNormSums = kCentre == Centre::kMean ? 3 : 1;

inline int64_t norm_parts(int64_t rows) {
  return std::clamp<int64_t>(ceil_div(rows, kNormWarps), 1, kMostParts);
}
inline size_t norm_grad_workspace(const KernelShape& shape) {
  const Shape& x = shape.inputs[1].shape;
  const int64_t width = x.back(), rows = width ? x.elements() / width : 0;
  return static_cast<size_t>(kNormSums<Centre::kMean> * norm_parts(rows) * width) * sizeof(float);
}

inline constexpr int kNormGradThreads = 384, kMostRowWarps = 8;

// dx = rstd · (g − mean(g) − x̂ · mean(g·x̂)) with g = dy·gain; without a centre the first mean is left out.
// partial[kNormSums][parts][width]: a block's sums over its rows. A row is kWarps warps', and a thread has
// one pack of each of its rows, so that registers are enough for the sums beside it and for many threads. dx
// may lie over dy, x or more.
template <typename T, Centre kCentre, int kWarps>
__global__ void __launch_bounds__(kNormGradThreads, 2) norm_grad_held_kernel(NormGrad<T> n, float* partial) {
  constexpr int kCount = kPack<T>;
  struct Piece {
    Pack<T> dy, x, more;
    float mean, rstd;
  };
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int part = warp % kWarps, line = warp / kWarps, lines = blockDim.x / (32 * kWarps);
  const int64_t column = int64_t{part * 32 + lane} * kCount;
  const bool has = column < n.width;
  const auto load = [&](int64_t row, Piece& piece) {
    if (!has || row >= n.rows) return;
    const int64_t at = row * n.width + column;
    piece.dy = load_pack(n.dy + at);
    piece.x = load_pack(n.x + at);
    if (n.more) piece.more = load_pack(n.more + at);
    piece.mean = kCentre == Centre::kMean ? n.mean[row] : 0;
    piece.rstd = n.rstd[row];
  };
  __shared__ float2 shares[2][kNormGradThreads / 32];
  const float count = static_cast<float>(n.width);
  constexpr int kSums = kNormSums<kCentre>;
  constexpr bool kAhead = kSums == 1;  // the next row is read ahead; beside more sums registers would spill
  float gain[kCount] = {}, sums[kSums][kCount] = {};
  if (has) load_floats(n.gain + column, gain);
  const int64_t first = int64_t{blockIdx.x} * lines, step = int64_t{gridDim.x} * lines;
  int turn = 0;
  Piece now, next;
  if (kAhead) load(first + line, next);
  for (int64_t base = first; base < n.rows; base += step, turn ^= 1) {
    const int64_t row = base + line;
    const bool mine = has && row < n.rows;
    if (kAhead) {
      now = next;
      load(row + step, next);
    } else {
      load(row, now);
    }
    float sum = 0, sum_x = 0;
    if (mine) {
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        const float slope = widen(now.dy.at[j]), normal = (widen(now.x.at[j]) - now.mean) * now.rstd;
        sums[0][j] += slope * normal;
        if constexpr (kSums > 1) sums[1][j] += slope;
        sum += slope * gain[j];
        sum_x += slope * gain[j] * normal;
      }
    }
    if (kCentre == Centre::kMean) sum = warp_reduce(sum, Add());
    sum_x = warp_reduce(sum_x, Add());
    if (kWarps > 1) {  // two turns have places of their own, so that one barrier is enough
      if (lane == 0) shares[turn][warp] = {sum, sum_x};
      __syncthreads();
      sum = sum_x = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        const float2 share = shares[turn][line * kWarps + w];
        sum += share.x;
        sum_x += share.y;
      }
    }
    if (!mine) continue;
    sum = kCentre == Centre::kMean ? sum / count : 0;
    sum_x /= count;
    float dx[kCount];
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const float normal = (widen(now.x.at[j]) - now.mean) * now.rstd;
      dx[j] = now.rstd * (widen(now.dy.at[j]) * gain[j] - sum - normal * sum_x);
      if (n.more) dx[j] += widen(now.more.at[j]);
      if constexpr (kSums > 1) sums[2][j] += dx[j];
    }
    store_floats(n.dx + row * n.width + column, dx);
  }
  // The lines' sums, one after the other.
  extern __shared__ float shared[];
  for (int l = 0; l < lines; ++l) {
    __syncthreads();
    if (line != l || !has) continue;
#pragma unroll
    for (int which = 0; which < kSums; ++which) {
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        float& to = shared[which * n.width + column + j];
        to = l == 0 ? sums[which][j] : to + sums[which][j];
      }
    }
  }
  __syncthreads();
  for (int64_t i = threadIdx.x; i < kSums * n.width; i += blockDim.x)
    partial[(i / n.width * gridDim.x + blockIdx.x) * n.width + i % n.width] = shared[i];
}

// Calls body(warps of a row) for rows that the kernel above takes; says whether it did.
template <typename T, typename Body>
bool with_row_warps(int64_t width, const Body& body) {
  if (width == 0 || width % kPack<T> != 0) return false;
  switch (ceil_div(width / kPack<T>, 32)) {
    case 1:
      return body(NormNumber<1>()), true;
    case 2:
      return body(NormNumber<2>()), true;
    case 3:
      return body(NormNumber<3>()), true;
    case 4:
      return body(NormNumber<4>()), true;
    case 5:
    case 6:
      return body(NormNumber<6>()), true;
    case 7:
    case 8:
      return body(NormNumber<8>()), true;
    default:
      return false;
  }
}

// A block takes a row.
template <typename T, Centre kCentre, int kCount>
__global__ void norm_grad_kernel(NormGrad<T> n) {
  const int64_t row = blockIdx.x, first = row * n.width;
  const int64_t begin = int64_t{threadIdx.x} * kCount, step = int64_t{blockDim.x} * kCount;
  const float mean = kCentre == Centre::kMean ? n.mean[row] : 0, rstd = n.rstd[row];
  float sum = 0, sum_x = 0, dy[kCount], x[kCount], gain[kCount];
  const auto load = [&](int64_t i) {
    load_floats(n.dy + first + i, dy);
    load_floats(n.x + first + i, x);
    load_floats(n.gain + i, gain);
  };
  for (int64_t i = begin; i < n.width; i += step) {
    load(i);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      sum += dy[j] * gain[j];
      sum_x += dy[j] * gain[j] * (x[j] - mean) * rstd;
    }
  }
  sum = kCentre == Centre::kMean ? block_sum(sum) / static_cast<float>(n.width) : 0;
  sum_x = block_sum(sum_x) / static_cast<float>(n.width);
  for (int64_t i = begin; i < n.width; i += step) {
    load(i);
#pragma unroll
    for (int j = 0; j < kCount; ++j) x[j] = rstd * (dy[j] * gain[j] - sum - (x[j] - mean) * rstd * sum_x);
    if (n.more) {
      load_floats(n.more + first + i, dy);
#pragma unroll
      for (int j = 0; j < kCount; ++j) x[j] += dy[j];
    }
    store_floats(n.dx + first + i, x);
  }
}

inline constexpr int kNormColumns = 32, kNormLines = 8;

// The first two sums over rows that norm_grad_held_kernel makes on its way, for rows that are not held.
template <typename T, Centre kCentre>
__global__ void norm_sums_kernel(NormGrad<T> n, int64_t parts, float* partial) {
  __shared__ float gains[kNormLines][kNormColumns], biases[kNormLines][kNormColumns];
  const int lane = threadIdx.x % kNormColumns, line = threadIdx.x / kNormColumns;
  const int64_t column = int64_t{blockIdx.x} * kNormColumns + lane, part = blockIdx.y;
  const int64_t each = (n.rows + parts - 1) / parts, last = min((part + 1) * each, n.rows);
  float gain = 0, bias = 0;
  if (column < n.width) {
    for (int64_t row = part * each + line; row < last; row += kNormLines) {
      const float dy = widen(n.dy[row * n.width + column]);
      const float mean = kCentre == Centre::kMean ? n.mean[row] : 0;
      gain += dy * (widen(n.x[row * n.width + column]) - mean) * n.rstd[row];
      bias += dy;
    }
  }
  gains[line][lane] = gain;
  biases[line][lane] = bias;
  __syncthreads();
  if (line > 0 || column >= n.width) return;
  for (int i = 1; i < kNormLines; ++i) {
    gain += gains[i][lane];
    bias += biases[i][lane];
  }
  partial[part * n.width + column] = gain;
  if (kCentre == Centre::kMean) partial[(parts + part) * n.width + column] = bias;
}

// The third: of dx as it is stored.
template <typename T>
__global__ void norm_total_kernel(NormGrad<T> n, int64_t parts, float* partial) {
  const int64_t column = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, part = blockIdx.y;
  const int64_t each = (n.rows + parts - 1) / parts, last = min((part + 1) * each, n.rows);
  if (column >= n.width) return;
  float sum = 0;
  for (int64_t row = part * each; row < last; ++row) sum += widen(n.dx[row * n.width + column]);
  partial[(2 * parts + part) * n.width + column] = sum;
}

// The parts of each sum; blockIdx.y says of which.
template <typename T>
__global__ void norm_combine_kernel(int64_t width, int64_t parts, const float* partial, T* dgain, T* dbias,
                                    T* total) {
  constexpr int kLines = 32;
  __shared__ float lines[kLines][kNormColumns];
  T* const to = blockIdx.y == 0 ? dgain : blockIdx.y == 1 ? dbias : total;
  const int lane = threadIdx.x % kNormColumns, line = threadIdx.x / kNormColumns;
  const int64_t column = int64_t{blockIdx.x} * kNormColumns + lane;
  float sum = 0;
  if (column < width && to) {
    for (int64_t part = line; part < parts; part += kLines)
      sum += partial[(blockIdx.y * parts + part) * width + column];
  }
  lines[line][lane] = sum;
  __syncthreads();
  if (line > 0 || column >= width || !to) return;
  for (int i = 1; i < kLines; ++i) sum += lines[i][lane];
  to[column] = narrow<T>(sum);
}

template <typename T, Centre kCentre>
void norm_grad(const KernelContext& context, const NormGrad<T>& n) {
  if (n.width == 0) return;
  const int64_t parts = norm_parts(n.rows);
  float* const partial = reinterpret_cast<float*>(context.workspace);
  const cudaStream_t stream = stream_of(context);
  const bool held = with_row_warps<T>(n.width, [&](auto warps) {
    const auto kernel = norm_grad_held_kernel<T, kCentre, warps>;
    constexpr int kThreads = kNormGradThreads / (32 * warps) * (32 * warps);  // whole rows
    const size_t bytes = static_cast<size_t>(kNormSums<kCentre> * n.width) * sizeof(float);
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
          "shared memory of a norm");
    kernel<<<blocks(parts), kThreads, bytes, stream>>>(n, partial);
  });
  if (!held) {
    const dim3 grid(blocks(ceil_div(n.width, kNormColumns)), blocks(parts));
    constexpr int kThreads = kNormColumns * kNormLines;
    // dx may lie over dy or x, so the sums of those come first.
    norm_sums_kernel<T, kCentre><<<grid, kThreads, 0, stream>>>(n, parts, partial);
    with_pack<T>(n.width, [&](auto pack) {
      if (n.rows > 0)
        norm_grad_kernel<T, kCentre, pack><<<blocks(n.rows), norm_threads(n.width / pack), 0, stream>>>(n);
    });
    if (n.total)
      norm_total_kernel<T>
          <<<dim3(blocks(ceil_div(n.width, 128)), blocks(parts)), 128, 0, stream>>>(n, parts, partial);
  }
  norm_combine_kernel<T>
      <<<dim3(blocks(ceil_div(n.width, kNormColumns)), kNormSums<kCentre>), 1024, 0, stream>>>(
          n.width, parts, partial, n.dgain, kCentre == Centre::kMean ? n.dbias : nullptr, n.total);
}

}  // namespace trireme::cuda
