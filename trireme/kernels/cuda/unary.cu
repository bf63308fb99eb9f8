// Element-wise ops of one input and their gradients, and cast.
#include "trireme/kernels/cuda/gelu.cuh"
#include "trireme/kernels/cuda/map.cuh"

namespace trireme::cuda {
namespace {

// clang-format off
struct Neg { __device__ float operator()(float x) const { return -x; } };
struct Exp { __device__ float operator()(float x) const { return expf(x); } };
struct Log { __device__ float operator()(float x) const { return logf(x); } };
struct Sqrt { __device__ float operator()(float x) const { return sqrtf(x); } };
struct Rsqrt { __device__ float operator()(float x) const { return 1 / sqrtf(x); } };
struct Tanh { __device__ float operator()(float x) const { return tanhf(x); } };
struct Sigmoid { __device__ float operator()(float x) const { return sigmoid(x); } };
struct Relu { __device__ float operator()(float x) const { return x < 0 ? 0 : x; } };
struct Gelu { __device__ float operator()(float x) const { return gelu(x); } };
struct Silu { __device__ float operator()(float x) const { return x * sigmoid(x); } };
struct TanhGrad { __device__ float operator()(float dy, float y) const { return dy * (1 - y * y); } };
struct SigmoidGrad { __device__ float operator()(float dy, float y) const { return dy * y * (1 - y); } };
struct ReluGrad { __device__ float operator()(float dy, float y) const { return y > 0 ? dy : 0; } };
struct GeluGrad { __device__ float operator()(float dy, float x) const { return gelu_grad(dy, x); } };
// clang-format on
struct SiluGrad {
  __device__ float operator()(float dy, float x) const {
    const float s = sigmoid(x);
    return dy * (x * s * (1 - s) + s);
  }
};
struct Affine {
  float scale, shift;
  __device__ float operator()(float x) const { return fmaf(x, scale, shift); }
};

template <typename F>
void unary(const KernelContext& context) {
  map_one(context, F());
}
template <typename F>
void unary_grad(const KernelContext& context) {
  map_two(context, F());
}
void affine(const KernelContext& context) {
  map_one(context, Affine{static_cast<float>(context.attrs.real("scale", 1)),
                          static_cast<float>(context.attrs.real("shift", 0))});
}

// Between the three formats, four elements at a time.
template <typename X, typename Y>
__global__ void convert_kernel(const X* x, Y* y, int64_t count) {
  struct alignas(4 * sizeof(X)) From {
    X at[4];
  };
  struct alignas(4 * sizeof(Y)) To {
    Y at[4];
  };
  const int64_t first = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * 4;
  if (first + 4 <= count) {
    const From from = *reinterpret_cast<const From*>(x + first);
    To to;
#pragma unroll
    for (int j = 0; j < 4; ++j) to.at[j] = narrow<Y>(widen(from.at[j]));
    *reinterpret_cast<To*>(y + first) = to;
  } else {
    for (int64_t i = first; i < count; ++i) y[i] = narrow<Y>(widen(x[i]));
  }
}

// Any other, rare, by way of f32 as on the CPU.
__device__ float load_any(DType dtype, const void* x, int64_t i) {
  switch (dtype) {
    case DType::f64:
      return static_cast<float>(static_cast<const double*>(x)[i]);
    case DType::f32:
      return static_cast<const float*>(x)[i];
    case DType::f16:
      return widen(static_cast<const f16*>(x)[i]);
    case DType::bf16:
      return widen(static_cast<const bf16*>(x)[i]);
    case DType::i64:
      return static_cast<float>(static_cast<const int64_t*>(x)[i]);
    case DType::i32:
      return static_cast<float>(static_cast<const int32_t*>(x)[i]);
    default:
      return static_cast<const uint8_t*>(x)[i];
  }
}
__device__ void store_any(DType dtype, void* y, int64_t i, float value) {
  switch (dtype) {
    case DType::f64:
      static_cast<double*>(y)[i] = value;
      break;
    case DType::f32:
      static_cast<float*>(y)[i] = value;
      break;
    case DType::f16:
      static_cast<f16*>(y)[i] = narrow<f16>(value);
      break;
    case DType::bf16:
      static_cast<bf16*>(y)[i] = narrow<bf16>(value);
      break;
    case DType::i64:
      static_cast<int64_t*>(y)[i] = static_cast<int64_t>(value);
      break;
    case DType::i32:
      static_cast<int32_t*>(y)[i] = static_cast<int32_t>(value);
      break;
    default:
      static_cast<uint8_t*>(y)[i] = static_cast<uint8_t>(value);
  }
}
__global__ void cast_kernel(DType from, const void* x, DType to, void* y, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) store_any(to, y, i, load_any(from, x, i));
}

bool is_format(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

void cast(const KernelContext& context) {
  const TensorView &x = context.inputs[0], &y = context.outputs[0];
  const int64_t count = x.elements();
  if (count == 0) return;
  if (!is_format(x.dtype) || !is_format(y.dtype)) {
    cast_kernel<<<blocks(ceil_div(count, kMapThreads)), kMapThreads, 0, stream_of(context)>>>(
        x.dtype, x.data, y.dtype, y.data, count);
    return;
  }
  with_format(x.dtype, [&](auto from) {
    with_format(y.dtype, [&](auto to) {
      convert_kernel<<<blocks(ceil_div(count, 4 * kMapThreads)), kMapThreads, 0, stream_of(context)>>>(
          static_cast<const decltype(from)*>(x.data), static_cast<decltype(to)*>(y.data), count);
    });
  });
}

}  // namespace

void add_unary(KernelTable& table) {
  add_for_all_formats(table, "affine", {affine});
  add_for_all_formats(table, "exp", {unary<Exp>});
  add_for_all_formats(table, "gelu", {unary<Gelu>});
  add_for_all_formats(table, "gelu_grad", {unary_grad<GeluGrad>});
  add_for_all_formats(table, "log", {unary<Log>});
  add_for_all_formats(table, "neg", {unary<Neg>});
  add_for_all_formats(table, "relu", {unary<Relu>});
  add_for_all_formats(table, "relu_grad", {unary_grad<ReluGrad>});
  add_for_all_formats(table, "rsqrt", {unary<Rsqrt>});
  add_for_all_formats(table, "sigmoid", {unary<Sigmoid>});
  add_for_all_formats(table, "sigmoid_grad", {unary_grad<SigmoidGrad>});
  add_for_all_formats(table, "silu", {unary<Silu>});
  add_for_all_formats(table, "silu_grad", {unary_grad<SiluGrad>});
  add_for_all_formats(table, "sqrt", {unary<Sqrt>});
  add_for_all_formats(table, "tanh", {unary<Tanh>});
  add_for_all_formats(table, "tanh_grad", {unary_grad<TanhGrad>});
  add_for_all_formats(table, "cast", {cast});
  table.add("cast", DType::f64, {cast});
}

}  // namespace trireme::cuda
