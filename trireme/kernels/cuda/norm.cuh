// What layer_norm and rms_norm share. Forward: a block takes a row, which stays in the caches while it is
// read again. Gradients of gain and bias are sums over rows: columns in parts of the rows, and the parts in
// order.
#pragma once

#include <algorithm>

#include "trireme/kernels/cuda/device.cuh"

namespace trireme::cuda {

enum class Centre { kMean, kNone };  // layer_norm; rms_norm

inline int norm_threads(int64_t width) {
  return width <= 128 ? 32 : width <= 1024 ? 128 : 256;
}

template <typename T>
struct NormRows {
  const T *x, *residual;  // residual: null where there is none
  const T *gain, *bias;   // bias: of layer_norm
  T *sum, *y;             // sum: x + residual
  float *mean, *rstd;     // mean: of layer_norm
  int64_t width;
  float eps;
};

// Statistics are those of the sum as it is stored. It is written last, with y: either may lie over x or the
// residual.
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
void norm_rows(const KernelContext& context, const NormRows<T>& rows, int64_t count) {
  with_pack<T>(rows.width, [&](auto pack) {
    norm_kernel<T, kCentre, pack>
        <<<blocks(count), norm_threads(rows.width / pack), 0, stream_of(context)>>>(rows);
  });
}

template <typename T>
struct NormGrad {
  const T *dy, *x, *gain;
  const float *mean, *rstd;
  T *dx, *dgain, *dbias;
  int64_t rows, width;
};

// dx = rstd · (g − mean(g) − x̂ · mean(g·x̂)) with g = dy·gain; without a centre the first mean is left out.
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
    store_floats(n.dx + first + i, x);
  }
}

inline constexpr int kNormColumns = 32, kNormRows = 8;

inline int64_t norm_parts(int64_t rows, int64_t width) {
  return std::clamp<int64_t>(1024 / std::max<int64_t>(1, ceil_div(width, kNormColumns)), 1,
                             std::max<int64_t>(1, rows / (8 * kNormRows)));
}
inline size_t norm_grad_workspace(const KernelShape& shape) {
  const Shape& x = shape.inputs[1].shape;
  const int64_t width = x.back(), rows = width ? x.elements() / width : 0;
  return static_cast<size_t>(2 * norm_parts(rows, width) * width) * sizeof(float);
}

// partial[2][parts][width]: sums of dy·x̂ and of dy.
template <typename T, Centre kCentre>
__global__ void norm_sums_kernel(NormGrad<T> n, int64_t parts, float* partial) {
  __shared__ float gains[kNormRows][kNormColumns], biases[kNormRows][kNormColumns];
  const int lane = threadIdx.x % kNormColumns, line = threadIdx.x / kNormColumns;
  const int64_t column = int64_t{blockIdx.x} * kNormColumns + lane, part = blockIdx.y;
  const int64_t each = (n.rows + parts - 1) / parts, last = min((part + 1) * each, n.rows);
  float gain = 0, bias = 0;
  if (column < n.width) {
    for (int64_t row = part * each + line; row < last; row += kNormRows) {
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
  for (int i = 1; i < kNormRows; ++i) {
    gain += gains[i][lane];
    bias += biases[i][lane];
  }
  partial[part * n.width + column] = gain;
  partial[(parts + part) * n.width + column] = bias;
}

template <typename T, Centre kCentre>
__global__ void norm_combine_kernel(NormGrad<T> n, int64_t parts, const float* partial) {
  const int64_t column = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= n.width) return;
  float gain = 0, bias = 0;
  for (int64_t part = 0; part < parts; ++part) {
    gain += partial[part * n.width + column];
    bias += partial[(parts + part) * n.width + column];
  }
  n.dgain[column] = narrow<T>(gain);
  if (kCentre == Centre::kMean) n.dbias[column] = narrow<T>(bias);
}

// dx may lie over dy or x, so the sums over rows come first.
template <typename T, Centre kCentre>
void norm_grad(const KernelContext& context, const NormGrad<T>& n) {
  if (n.width == 0) return;
  const int64_t parts = norm_parts(n.rows, n.width);
  float* const partial = reinterpret_cast<float*>(context.workspace);
  const cudaStream_t stream = stream_of(context);
  norm_sums_kernel<T, kCentre>
      <<<dim3(blocks(ceil_div(n.width, kNormColumns)), blocks(parts)), kNormColumns * kNormRows, 0, stream>>>(
          n, parts, partial);
  norm_combine_kernel<T, kCentre><<<blocks(ceil_div(n.width, 128)), 128, 0, stream>>>(n, parts, partial);
  if (n.rows == 0) return;
  with_pack<T>(n.width, [&](auto pack) {
    norm_grad_kernel<T, kCentre, pack><<<blocks(n.rows), norm_threads(n.width / pack), 0, stream>>>(n);
  });
}

}  // namespace trireme::cuda
