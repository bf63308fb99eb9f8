// Softmax over the last dim and its gradient: a block takes a row.
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

int threads_for(int64_t width) {
  return width <= 64 ? 32 : width <= 512 ? 128 : 512;
}

template <bool kGradient>
void softmax(const KernelContext& context) {
  const TensorView& y = context.outputs[0];
  if (y.elements() == 0) return;
  const int64_t width = y.shape.back();
  const unsigned grid = blocks(y.elements() / width);
  with_format(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (kGradient)
      softmax_grad_kernel<<<grid, threads_for(width), 0, stream_of(context)>>>(
          in<T>(context, 0), in<T>(context, 1), out<T>(context, 0), width);
    else
      softmax_kernel<<<grid, threads_for(width), 0, stream_of(context)>>>(in<T>(context, 0),
                                                                          out<T>(context, 0), width);
  });
}

}  // namespace

void add_softmax(KernelTable& table) {
  add_for_all_formats(table, "softmax", {softmax<false>});
  add_for_all_formats(table, "softmax_grad", {softmax<true>});
}

}  // namespace trireme::cuda
