// Element-wise functions of one tensor, and their gradients. To add one: a functor and a line at the end.
#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/kernels/cpu/unary.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first
#include <hwy/highway.h>

#include "trireme/kernels/cpu/map-inl.h"
#include "trireme/kernels/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {
namespace {

// clang-format off
struct NegOp { VF32 operator()(F32, VF32 x) const { return hn::Neg(x); } };
struct ExpOp { VF32 operator()(F32 d, VF32 x) const { return Exp(d, x); } };
struct LogOp { VF32 operator()(F32 d, VF32 x) const { return Log(d, x); } };
struct SqrtOp { VF32 operator()(F32, VF32 x) const { return hn::Sqrt(x); } };
struct RsqrtOp { VF32 operator()(F32 d, VF32 x) const { return hn::Div(hn::Set(d, 1.0f), hn::Sqrt(x)); } };
struct TanhOp { VF32 operator()(F32 d, VF32 x) const { return Tanh(d, x); } };
struct ErfOp { VF32 operator()(F32 d, VF32 x) const { return Erf(d, x); } };
struct SigmoidOp { VF32 operator()(F32 d, VF32 x) const { return Sigmoid(d, x); } };
struct GeluOp { VF32 operator()(F32 d, VF32 x) const { return Gelu(d, x); } };
struct SiluOp { VF32 operator()(F32 d, VF32 x) const { return hn::Mul(x, Sigmoid(d, x)); } };
// A comparison rather than Max, which on x86 loses NaN.
struct ReluOp { VF32 operator()(F32 d, VF32 x) const { return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x); } };
// clang-format on

struct TanhGrad {
  VF32 operator()(F32, VF32 dy, VF32 y) const { return hn::NegMulAdd(hn::Mul(dy, y), y, dy); }
};
struct SigmoidGrad {
  VF32 operator()(F32, VF32 dy, VF32 y) const {
    const VF32 t = hn::Mul(dy, y);
    return hn::NegMulAdd(t, y, t);
  }
};
struct ReluGrad {
  VF32 operator()(F32 d, VF32 dy, VF32 y) const { return hn::IfThenElseZero(hn::Gt(y, hn::Zero(d)), dy); }
};
// gelu = x·s with s = sigmoid(2u), 2u = a·x + b·x³; so gelu' = s + x·s·(1 − s)·(a + 3b·x²).
struct GeluGrad {
  VF32 operator()(F32 d, VF32 dy, VF32 x) const {
    const VF32 a = hn::Set(d, 1.59576912f), b = hn::Set(d, 0.0713548163f), one = hn::Set(d, 1.0f);
    const VF32 bx2 = hn::Mul(b, hn::Mul(x, x));
    const VF32 s = Sigmoid(d, hn::Mul(x, hn::Add(a, bx2)));
    const VF32 slope = hn::MulAdd(hn::Set(d, 3.0f), bx2, a);
    // s·(1 − s) is zero long before x·slope overflows to infinity, and their product must be too.
    const VF32 bounded = hn::Min(hn::Max(hn::Mul(x, slope), hn::Set(d, -1e30f)), hn::Set(d, 1e30f));
    return hn::Mul(dy, hn::MulAdd(hn::Mul(s, hn::Sub(one, s)), bounded, s));
  }
};
struct SiluGrad {
  VF32 operator()(F32 d, VF32 dy, VF32 x) const {
    const VF32 s = Sigmoid(d, x);
    return hn::Mul(dy, hn::MulAdd(hn::Mul(x, s), hn::Sub(hn::Set(d, 1.0f), s), s));
  }
};

struct Affine {
  float scale, shift;
  VF32 operator()(F32 d, VF32 x) const { return hn::MulAdd(x, hn::Set(d, scale), hn::Set(d, shift)); }
};

template <class F>
void run_unary(const KernelContext& context, const F& f) {
  for_blocks<1, 1>(pool_of(context), context.outputs[0].elements(), context.inputs, context.outputs,
                   [&f](const Block<1, 1>& block) { map(f, block.count, block.out[0], block.in[0]); });
}
template <class F>
void unary(const KernelContext& context) {
  run_unary(context, F());
}
template <class F>
void unary_grad(const KernelContext& context) {
  for_blocks<2, 1>(
      pool_of(context), context.outputs[0].elements(), context.inputs, context.outputs,
      [](const Block<2, 1>& block) { map(F(), block.count, block.out[0], block.in[0], block.in[1]); });
}
void affine(const KernelContext& context) {
  const Attrs& attrs = context.attrs;
  run_unary(context,
            Affine{static_cast<float>(attrs.real("scale", 1)), static_cast<float>(attrs.real("shift", 0))});
}

}  // namespace

void add_unary_kernels(KernelTable& table) {
  add_for_all_formats(table, "affine", {affine});
  add_for_all_formats(table, "erf", {unary<ErfOp>});
  add_for_all_formats(table, "exp", {unary<ExpOp>});
  add_for_all_formats(table, "gelu", {unary<GeluOp>});
  add_for_all_formats(table, "gelu_grad", {unary_grad<GeluGrad>});
  add_for_all_formats(table, "log", {unary<LogOp>});
  add_for_all_formats(table, "neg", {unary<NegOp>});
  add_for_all_formats(table, "relu", {unary<ReluOp>});
  add_for_all_formats(table, "relu_grad", {unary_grad<ReluGrad>});
  add_for_all_formats(table, "rsqrt", {unary<RsqrtOp>});
  add_for_all_formats(table, "sigmoid", {unary<SigmoidOp>});
  add_for_all_formats(table, "sigmoid_grad", {unary_grad<SigmoidGrad>});
  add_for_all_formats(table, "silu", {unary<SiluOp>});
  add_for_all_formats(table, "silu_grad", {unary_grad<SiluGrad>});
  add_for_all_formats(table, "sqrt", {unary<SqrtOp>});
  add_for_all_formats(table, "tanh", {unary<TanhOp>});
  add_for_all_formats(table, "tanh_grad", {unary_grad<TanhGrad>});
}

}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::cpu {

HWY_EXPORT(add_unary_kernels);
void add_unary(KernelTable& table) {
  HWY_DYNAMIC_DISPATCH(add_unary_kernels)(table);
}

}  // namespace trireme::cpu
#endif
