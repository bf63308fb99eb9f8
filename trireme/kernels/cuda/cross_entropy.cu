// cross_entropy and its gradient: a block takes a row of logits and reads it once, each thread with a largest
// logit and a sum of its own. Where both are made at once, the row is held in shared memory in between. What
// rows add to the loss is summed by one block, in a fixed order. A target that is no class makes the loss a
// NaN: a kernel cannot complain.
#include <cuda_pipeline.h>

#include "trireme/kernels/composed.h"
#include "trireme/kernels/cuda/device.cuh"
#include "trireme/kernels/cuda/table.h"

namespace trireme::cuda {
namespace {

constexpr int kTotalThreads = 1024;

struct Options {
  int64_t ignore_index, class_offset, classes;
  double smooth;
  Options(const Attrs& attrs, int64_t width)
      : ignore_index(attrs.integer("ignore_index", -1)),
        class_offset(attrs.integer("class_offset", 0)),
        classes(attrs.integer("classes", width)),
        smooth(attrs.real("label_smoothing", 0)) {}
};

int threads_for(int64_t width) {
  return width <= 128 ? 32 : width <= 2048 ? 128 : 512;
}

struct Row {
  float largest;        // of the row
  double exponentials;  // relative to it
  double logits;
};

// Of a number at most 0. 16-bit logits are off by more than the fast one is.
template <typename T>
__device__ __forceinline__ float exponential(float x) {
  if constexpr (std::is_same_v<T, float>)
    return expf(x);
  else
    return __expf(x);
}

// What a thread takes at once.
template <int kCount, typename T>
struct alignas(kCount * sizeof(T)) Few {
  T at[kCount];
};

template <int kCount, typename T>
__device__ Row read_row(const T* x, int64_t width) {
  using F = Few<kCount, T>;
  float largest = -INFINITY, sum = 0, logits = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < width / kCount; i += blockDim.x) {
    const F few = reinterpret_cast<const F*>(x)[i];
    float top = largest;
#pragma unroll
    for (int j = 0; j < kCount; ++j) top = fmaxf(top, widen(few.at[j]));
    if (top > largest) {
      sum *= exponential<T>(largest - top);
      largest = top;
    }
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      sum += exponential<T>(widen(few.at[j]) - largest);
      logits += widen(few.at[j]);
    }
  }
  const float all = block_max(largest);
  const double mine =
      largest == -INFINITY ? 0 : static_cast<double>(sum) * exp(static_cast<double>(largest) - all);
  // A NaN never is the largest, but makes the sum one.
  const double exponentials = block_sum(isnan(sum) ? static_cast<double>(sum) : mine);
  return {all, exponentials, block_sum(static_cast<double>(logits))};
}

// What a row adds to the loss.
__device__ __forceinline__ double row_loss(const Row& totals, double lse, int32_t target, float target_logit,
                                           int64_t width, const Options& options) {
  if (target == options.ignore_index) return 0;
  if (target < 0 || target >= width) return NAN;
  double loss = lse - (1 - options.smooth) * target_logit;
  if (options.smooth != 0) loss -= options.smooth * totals.logits / static_cast<double>(width);
  return loss;
}

template <int kCount, typename T>
__global__ void cross_entropy_kernel(const T* logits, const int32_t* targets, float* lse, double* losses,
                                     int64_t width, Options options) {
  const int64_t row = blockIdx.x;
  const T* const x = logits + row * width;
  const Row totals = read_row<kCount>(x, width);
  if (threadIdx.x > 0) return;
  const double row_lse = totals.largest + log(totals.exponentials);
  lse[row] = static_cast<float>(row_lse);
  const int32_t target = targets[row];
  const float target_logit = target >= 0 && target < width ? widen(x[target]) : 0;
  losses[row] = row_loss(totals, row_lse, target, target_logit, width, options);
}

// One block.
__global__ void total_kernel(const double* losses, const int32_t* targets, int64_t rows, int64_t ignore_index,
                             float* loss, float* count) {
  double sum = 0, counted = 0;
  for (int64_t row = threadIdx.x; row < rows; row += blockDim.x) {
    sum += losses[row];
    counted += targets[row] != ignore_index ? 1 : 0;
  }
  sum = block_sum(sum);
  counted = block_sum(counted);
  if (threadIdx.x > 0) return;
  *loss = static_cast<float>(sum);
  *count = static_cast<float>(counted);
}

void cross_entropy(const KernelContext& context) {
  const int64_t width = context.inputs[0].shape.back(), rows = context.inputs[1].elements();
  const Options options(context.attrs, width);
  const int32_t* const targets = in<int32_t>(context, 1);
  double* const losses = reinterpret_cast<double*>(context.workspace);
  const cudaStream_t stream = stream_of(context);
  with_format(context.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    if (rows == 0) return;
    with_pack<T>(width, [&](auto pack) {
      cross_entropy_kernel<pack><<<blocks(rows), threads_for(width / pack), 0, stream>>>(
          in<T>(context, 0), targets, out<float>(context, 2), losses, width, options);
    });
  });
  total_kernel<<<1, kTotalThreads, 0, stream>>>(losses, targets, rows, options.ignore_index,
                                                out<float>(context, 0), out<float>(context, 1));
}

template <int kCount, typename T>
__global__ void sums_kernel(const T* logits, const int32_t* targets, const T* largest, float* exponentials,
                            float* expected, int64_t width, Options options) {
  const int64_t row = blockIdx.x;
  const T* const x = logits + row * width;
  const Row totals = read_row<kCount>(x, width);
  if (threadIdx.x > 0) return;
  exponentials[row] = static_cast<float>(totals.exponentials * exp(static_cast<double>(totals.largest) -
                                                                   static_cast<double>(widen(largest[row]))));
  double mean = options.smooth * totals.logits / static_cast<double>(options.classes);
  const int64_t target = targets[row] - options.class_offset;
  if (target >= 0 && target < width) mean += (1 - options.smooth) * widen(x[target]);
  expected[row] = static_cast<float>(mean);
}

void cross_entropy_sums(const KernelContext& context) {
  const int64_t width = context.inputs[0].shape.back(), rows = context.inputs[1].elements();
  if (rows == 0) return;
  with_format(context.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    with_pack<T>(width, [&](auto pack) {
      sums_kernel<pack><<<blocks(rows), threads_for(width / pack), 0, stream_of(context)>>>(
          in<T>(context, 0), in<int32_t>(context, 1), in<T>(context, 2), out<float>(context, 0),
          out<float>(context, 1), width, Options(context.attrs, width));
    });
  });
}

template <typename T>
__global__ void losses_kernel(const T* largest, const float* exponentials, const float* expected,
                              const int32_t* targets, int64_t rows, int64_t ignore_index, float* lse,
                              double* losses) {
  const int64_t row = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const double row_lse =
      static_cast<double>(widen(largest[row])) + log(static_cast<double>(exponentials[row]));
  lse[row] = static_cast<float>(row_lse);
  losses[row] = targets[row] == ignore_index ? 0 : row_lse - expected[row];
}

void cross_entropy_total(const KernelContext& context) {
  const int64_t rows = context.inputs[0].elements(), ignore_index = context.attrs.integer("ignore_index", -1);
  const int32_t* const targets = in<int32_t>(context, 3);
  double* const losses = reinterpret_cast<double*>(context.workspace);
  const cudaStream_t stream = stream_of(context);
  with_format(context.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    if (rows > 0)
      losses_kernel<<<blocks(ceil_div(rows, 128)), 128, 0, stream>>>(
          in<T>(context, 0), in<float>(context, 1), in<float>(context, 2), targets, rows, ignore_index,
          out<float>(context, 2), losses);
  });
  total_kernel<<<1, kTotalThreads, 0, stream>>>(losses, targets, rows, ignore_index, out<float>(context, 0),
                                                out<float>(context, 1));
}

size_t losses_workspace(const KernelShape& shape) {
  return static_cast<size_t>(shape.outputs[2].shape.elements()) * sizeof(double);
}

// The gradient at classes first … first + kCount of a row.
template <int kCount, typename T>
__device__ __forceinline__ Few<kCount, T> gradient(const Few<kCount, T>& logits, int64_t first,
                                                   int64_t target, float row_lse, float factor,
                                                   const Options& options) {
  const float smooth = static_cast<float>(options.smooth);
  const float uniform = smooth / static_cast<float>(options.classes);
  Few<kCount, T> result;
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    float value = (exponential<T>(widen(logits.at[j]) - row_lse) - uniform) * factor;
    if (first + j == target) value -= (1 - smooth) * factor;
    result.at[j] = narrow<T>(value);
  }
  return result;
}

// dlogits may lie over logits.
template <int kCount, typename T>
__global__ void grad_kernel(const float* dloss, const T* logits, const int32_t* targets, const float* lse,
                            T* dlogits, int64_t width, Options options) {
  using F = Few<kCount, T>;
  const int64_t row = blockIdx.y, i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= width / kCount) return;
  F result{};
  if (targets[row] != options.ignore_index)
    result = gradient(reinterpret_cast<const F*>(logits + row * width)[i], i * kCount,
                      targets[row] - options.class_offset, lse[row], *dloss, options);
  reinterpret_cast<F*>(dlogits + row * width)[i] = result;
}

// e to a row's logits less one number. 16-bit logits are off by more than the fast one is.
template <typename T>
struct Exponentials {
  static constexpr float kLog2E = 1.44269504f;
  float shift;
  __device__ explicit Exponentials(float less) : shift(std::is_same_v<T, float> ? less : less * kLog2E) {}
  __device__ __forceinline__ float operator()(float x) const {
    if constexpr (std::is_same_v<T, float>) {
      return expf(x - shift);
    } else {
      float result;
      asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(fmaf(x, kLog2E, -shift)));
      return result;
    }
  }
};

__device__ __forceinline__ __nv_bfloat162 as_pair(const bf16* x) {
  return *reinterpret_cast<const __nv_bfloat162*>(x);
}
__device__ __forceinline__ __half2 as_pair(const f16* x) {
  return *reinterpret_cast<const __half2*>(x);
}
// NaNs are skipped.
template <int kCount, typename T>
__device__ __forceinline__ float largest_of(const Few<kCount, T>& few) {
  if constexpr (kCount % 2 == 0 && sizeof(T) == 2) {
    auto pair = as_pair(few.at);
#pragma unroll
    for (int j = 2; j < kCount; j += 2) pair = __hmax2(pair, as_pair(few.at + j));
    return fmaxf(widen(pair.x), widen(pair.y));
  } else {
    float largest = widen(few.at[0]);
#pragma unroll
    for (int j = 1; j < kCount; ++j) largest = fmaxf(largest, widen(few.at[j]));
    return largest;
  }
}

enum class Smoothing { kNo, kYes };

// A row comes into shared memory once, all of it under way at the same time; each thread works on the pieces
// that it brought. dlogits may lie over logits.
constexpr int kHeldThreads = 1024;
template <int kCount, Smoothing kSmoothing, typename T>
__global__ void __launch_bounds__(kHeldThreads, 2)
    loss_and_grad_kernel(const T* logits, const int32_t* targets, const float* dloss, T* dlogits,
                         double* losses, int width, Options options) {
  using F = Few<kCount, T>;
  extern __shared__ __align__(16) unsigned char shared[];
  F* const held = reinterpret_cast<F*>(shared);
  const int64_t row = blockIdx.x;
  const int pieces = width / kCount;
  const F* const from = reinterpret_cast<const F*>(logits + row * width);
  for (int i = threadIdx.x; i < pieces; i += blockDim.x) {
    if constexpr (sizeof(F) >= 4)
      __pipeline_memcpy_async(held + i, from + i, sizeof(F));
    else
      held[i] = from[i];
  }
  __pipeline_commit();
  const int32_t target = targets[row];
  const float factor = *dloss;
  __pipeline_wait_prior(0);
  float largest = -INFINITY;
  for (int i = threadIdx.x; i < pieces; i += blockDim.x) largest = fmaxf(largest, largest_of(held[i]));
  largest = block_max(largest);
  float sum = 0, logit_sum = 0;
  const Exponentials<T> relative(largest == -INFINITY ? 0 : largest);
  for (int i = threadIdx.x; i < pieces; i += blockDim.x) {
    const F few = held[i];
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      sum += relative(widen(few.at[j]));
      if (kSmoothing == Smoothing::kYes) logit_sum += widen(few.at[j]);
    }
  }
  const double exponentials = block_sum(static_cast<double>(sum));
  const double logit_total = kSmoothing == Smoothing::kYes ? block_sum(static_cast<double>(logit_sum)) : 0;
  // All threads have waited for each other, so that all of the row is there.
  __shared__ double row_lse;
  if (threadIdx.x == 0) {
    row_lse = largest + log(exponentials);
    const float target_logit =
        target >= 0 && target < width ? widen(reinterpret_cast<const T*>(shared)[target]) : 0;
    losses[row] =
        row_loss({largest, exponentials, logit_total}, row_lse, target, target_logit, width, options);
  }
  __syncthreads();
  const float smooth = kSmoothing == Smoothing::kYes ? static_cast<float>(options.smooth) : 0;
  const float uniform = kSmoothing == Smoothing::kYes ? smooth / static_cast<float>(options.classes) : 0;
  const float scale = target == options.ignore_index ? 0 : factor;
  const Exponentials<T> probability(static_cast<float>(row_lse));
  const int target_piece = target >= 0 ? target / kCount : -1;
  F* const to = reinterpret_cast<F*>(dlogits + row * width);
  for (int i = threadIdx.x; i < pieces; i += blockDim.x) {
    F few = held[i];
    float hot[kCount] = {};
    if (i == target_piece) {
#pragma unroll
      for (int j = 0; j < kCount; ++j) hot[j] = i * kCount + j == target ? 1 - smooth : 0;
    }
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      float value = probability(widen(few.at[j]));
      if (kSmoothing == Smoothing::kYes) value -= uniform;
      few.at[j] = narrow<T>(scale == 0 ? 0 : (value - hot[j]) * scale);
    }
    to[i] = few;
  }
}

// Its format is that of dloss, f32, whatever the logits are.
void cross_entropy_grad(const KernelContext& context) {
  const TensorView& logits = context.inputs[1];
  const int64_t width = logits.shape.back(), rows = context.inputs[2].elements();
  if (logits.elements() == 0) return;
  constexpr int64_t kMostRows = 65535;  // of a grid's second dim
  constexpr int kThreads = 256;
  with_format(logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    with_pack<T>(width, [&](auto pack) {
      for (int64_t first = 0; first < rows; first += kMostRows) {
        const dim3 grid(blocks(ceil_div(width, int64_t{kThreads} * pack)),
                        blocks(std::min(kMostRows, rows - first)));
        grad_kernel<pack><<<grid, kThreads, 0, stream_of(context)>>>(
            in<float>(context, 0), in<T>(context, 1) + first * width, in<int32_t>(context, 2) + first,
            in<float>(context, 3) + first, out<T>(context, 0) + first * width, width,
            Options(context.attrs, width));
      }
    });
  });
}

constexpr size_t kMostHeldBytes = size_t{220} << 10;  // of a row; a block has 227 KiB
using Apart = ComposedKernel<cuda_kernels, kCrossEntropyWithGrad>;

void cross_entropy_with_grad(const KernelContext& context) {
  const TensorView& logits = context.inputs[0];
  const int64_t width = logits.shape.back(), rows = context.inputs[1].elements();
  const size_t row_bytes = static_cast<size_t>(width) * size_of(logits.dtype);
  if (row_bytes > kMostHeldBytes) return Apart::run(context);
  const Options options(context.attrs, width);
  double* const losses = reinterpret_cast<double*>(context.workspace);
  const cudaStream_t stream = stream_of(context);
  with_format(logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    with_pack<T>(width, [&](auto pack) {
      const auto kernel = options.smooth == 0 ? loss_and_grad_kernel<pack, Smoothing::kNo, T>
                                              : loss_and_grad_kernel<pack, Smoothing::kYes, T>;
      check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(row_bytes)),
            "shared memory of a row of logits");
      const int64_t pieces = width / pack;
      const int threads = pieces > 4096 ? kHeldThreads : threads_for(pieces);
      if (rows > 0)
        kernel<<<blocks(rows), threads, row_bytes, stream>>>(in<T>(context, 0), in<int32_t>(context, 1),
                                                             in<float>(context, 2), out<T>(context, 0),
                                                             losses, static_cast<int>(width), options);
    });
  });
  total_kernel<<<1, kTotalThreads, 0, stream>>>(losses, in<int32_t>(context, 1), rows, options.ignore_index,
                                                out<float>(context, 1), out<float>(context, 2));
}
bool loss_and_grad_gains(const KernelShape& shape) {
  return shape.inputs[0].shape.back() * static_cast<int64_t>(size_of(shape.inputs[0].dtype)) <=
         static_cast<int64_t>(kMostHeldBytes);
}

}  // namespace

void add_cross_entropy(KernelTable& table) {
  add_for_all_formats(table, "cross_entropy", {cross_entropy, losses_workspace});
  add_for_all_formats(table, "cross_entropy_sums", {cross_entropy_sums});
  add_for_all_formats(table, "cross_entropy_total", {cross_entropy_total, losses_workspace});
  table.add("cross_entropy_grad", DType::f32, {cross_entropy_grad});
  add_for_all_formats(table, "cross_entropy_with_grad",
                      {.run = cross_entropy_with_grad,
                       .workspace_bytes = Apart::workspace,  // and no less than the losses of rows
                       .gains = loss_and_grad_gains});
}

}  // namespace trireme::cuda
