// Softmax over the last dim and its gradient. A warp holds a row of up to kMostHeld numbers for each of its
// lanes in registers; a block takes a longer one.
#include "trireme/kernels/cuda/device.cuh"

namespace trireme::cuda {
namespace {

template <typename T>
__global__ void softmax_kernel(const T* x, T* y, int64_t width) {
  const int64_t row = int64_t{blockIdx.x} * width;
  float largest = -INFINITY, sum = 0;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) largest = fmaxf(largest, widen(x[row + i]));
  largest = block_max(largest);
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) sum += expf(widen(x[row + i]) - largest);
  sum = block_sum(sum);
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x)
    y[row + i] = narrow<T>(expf(widen(x[row + i]) - largest) / sum);
}

template <typename T>
__global__ void softmax_grad_kernel(const T* dy, const T* y, T* dx, int64_t width) {
  const int64_t row = int64_t{blockIdx.x} * width;
  float sum = 0;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) sum += widen(dy[row + i]) * widen(y[row + i]);
  sum = block_sum(sum);
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x)
    dx[row + i] = narrow<T>(widen(y[row + i]) * (widen(dy[row + i]) - sum));
}

constexpr int kWarps = 8, kMostHeld = 16;

template <typename T, int kHeld>
__global__ void softmax_held_kernel(const T* x, T* y, int64_t rows, int width) {
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (row >= rows) return;
  float held[kHeld], largest = -INFINITY, sum = 0;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int column = i * 32 + lane;
    held[i] = column < width ? widen(x[row * width + column]) : -INFINITY;
    largest = Max()(largest, held[i]);
  }
  largest = warp_reduce(largest, Max());
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    held[i] = i * 32 + lane < width ? expf(held[i] - largest) : 0;
    sum += held[i];
  }
  sum = warp_reduce(sum, Add());
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int column = i * 32 + lane;
    if (column < width) y[row * width + column] = narrow<T>(held[i] / sum);
  }
}

template <typename T, int kHeld>
__global__ void softmax_grad_held_kernel(const T* dy, const T* y, T* dx, int64_t rows, int width) {
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (row >= rows) return;
  float slopes[kHeld], held[kHeld], sum = 0;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int column = i * 32 + lane;
    slopes[i] = column < width ? widen(dy[row * width + column]) : 0;
    held[i] = column < width ? widen(y[row * width + column]) : 0;
    sum += slopes[i] * held[i];
  }
  sum = warp_reduce(sum, Add());
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int column = i * 32 + lane;
    if (column < width) dx[row * width + column] = narrow<T>(held[i] * (slopes[i] - sum));
  }
}

// Calls body(how many numbers of a row a lane holds); says whether rows are short enough for it.
template <typename Body>
bool with_held(int64_t width, const Body& body) {
  const int64_t held = ceil_div(width, 32);
  if (held > kMostHeld) return false;
  if (held <= 2)
    body(std::integral_constant<int, 2>());
  else if (held <= 4)
    body(std::integral_constant<int, 4>());
  else if (held <= 8)
    body(std::integral_constant<int, 8>());
  else
    body(std::integral_constant<int, kMostHeld>());
  return true;
}

constexpr int kBlockThreads = 512;

template <bool kGradient>
void softmax(const KernelContext& context) {
  const TensorView& y = context.outputs[0];
  if (y.elements() == 0) return;
  const int64_t width = y.shape.back(), rows = y.elements() / width;
  const cudaStream_t stream = stream_of(context);
  with_format(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* const first = in<T>(context, 0);
    T* const to = out<T>(context, 0);
    const bool done = with_held(width, [&](auto held) {
      const unsigned grid = blocks(ceil_div(rows, kWarps));
      if constexpr (kGradient)
        softmax_grad_held_kernel<T, held>
            <<<grid, 32 * kWarps, 0, stream>>>(first, in<T>(context, 1), to, rows, static_cast<int>(width));
      else
        softmax_held_kernel<T, held>
            <<<grid, 32 * kWarps, 0, stream>>>(first, to, rows, static_cast<int>(width));
    });
    if (done) return;
    if constexpr (kGradient)
      softmax_grad_kernel<<<blocks(rows), kBlockThreads, 0, stream>>>(first, in<T>(context, 1), to, width);
    else
      softmax_kernel<<<blocks(rows), kBlockThreads, 0, stream>>>(first, to, width);
  });
}

}  // namespace

void add_softmax(KernelTable& table) {
  add_for_all_formats(table, "softmax", {softmax<false>});
  add_for_all_formats(table, "softmax_grad", {softmax<true>});
}

}  // namespace trireme::cuda
