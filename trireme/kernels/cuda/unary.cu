// Element-wise ops of one input and their gradients.
#include "trireme/kernels/cuda/formulas.cuh"
#include "trireme/kernels/cuda/many.cuh"
#include "trireme/kernels/cuda/map.cuh"

namespace trireme::cuda {
namespace {

// The formulas as things that a kernel is given.
#define TRIREME_ONE(Name, op)                                             \
  struct Name {                                                           \
    __device__ float operator()(float x) const { return formula::op(x); } \
  };
#define TRIREME_TWO(Name, op)                                                           \
  struct Name {                                                                         \
    __device__ float operator()(float dy, float x) const { return formula::op(dy, x); } \
  };
TRIREME_ONE(Neg, neg)
TRIREME_ONE(Exp, exp)
TRIREME_ONE(Log, log)
TRIREME_ONE(Sqrt, sqrt)
TRIREME_ONE(Rsqrt, rsqrt)
TRIREME_ONE(Tanh, tanh)
TRIREME_ONE(Erf, erf)
TRIREME_ONE(Sigmoid, sigmoid)
TRIREME_ONE(Relu, relu)
TRIREME_ONE(Gelu, gelu)
TRIREME_ONE(Silu, silu)
TRIREME_TWO(TanhGrad, tanh_grad)
TRIREME_TWO(SigmoidGrad, sigmoid_grad)
TRIREME_TWO(ReluGrad, relu_grad)
TRIREME_TWO(GeluGrad, gelu_grad)
TRIREME_TWO(SiluGrad, silu_grad)
#undef TRIREME_ONE
#undef TRIREME_TWO
struct Affine {
  float scale, shift;
  __device__ float operator()(float x) const { return formula::affine(x, scale, shift); }
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
  return {static_cast<float>(context.attrs.real("scale", 1)),
          static_cast<float>(context.attrs.real("shift", 0))};
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
  add_for_all_formats(table, "erf", {unary<Erf>});
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
