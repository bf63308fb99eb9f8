// Element-wise ops of one input and their gradients.
#include "trireme/kernels/cuda/gelu.cuh"
#include "trireme/kernels/cuda/many.cuh"
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
Affine affine_of(const KernelContext& context) {
  return {static_cast<float>(context.attrs.real("scale", 1)), static_cast<float>(context.attrs.real("shift", 0))};
}
void affine(const KernelContext& context) {
  map_one(context, affine_of(context));
}
// f32, many of which are a few numbers.
struct AffineItem {
  static constexpr int kThreads = kMapThreads, kOfBlock = kThreads * kPack<float>;
  const float* x;
  float* y;
  int64_t count;
  Affine f;

  static AffineItem of(const KernelContext& context) {
    return {in<float>(context, 0), out<float>(context, 0), context.outputs[0].elements(), affine_of(context)};
  }
  int64_t blocks() const { return ceil_div(count, kOfBlock); }
  __device__ void run(int64_t block) const { map_pack(x, y, count, block * kThreads + threadIdx.x, f); }
};

}  // namespace

void add_unary(KernelTable& table) {
  table.add("affine", DType::f32,
            {.run = run_item<AffineItem, AffineItem::of>, .run_many = run_items<AffineItem, AffineItem::of>});
  table.add("affine", DType::bf16, {affine});
  table.add("affine", DType::f16, {affine});
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
}

}  // namespace trireme::cuda
