// The optimizer updates, each one pass over weights, gradients and states. The gradient is g·scale; when
// scale is not finite the step is skipped and every state keeps its value.
#include <cmath>

#include "trireme/kernels/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/kernels/cpu/optimizer.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first
#include "trireme/kernels/cpu/update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {
namespace {

float scalar(const KernelContext& context, int input) {
  return *context.in<float>(input);
}
float attr(const KernelContext& context, const char* name, double otherwise) {
  return static_cast<float>(context.attrs.real(name, otherwise));
}
float attr(const KernelContext& context, const char* name) {
  return static_cast<float>(context.attrs.real(name));
}

struct Sgd {
  float lr, scale, decay;
  void operator()(F32 d, const VF32* in, VF32* out) const {
    const VF32 w = in[0];
    const VF32 g = hn::MulAdd(hn::Set(d, decay), w, hn::Mul(in[1], hn::Set(d, scale)));
    out[0] = hn::NegMulAdd(hn::Set(d, lr), g, w);
  }
};
void sgd(const KernelContext& context) {
  const float scale = scalar(context, 3);
  if (!std::isfinite(scale)) return keep<1>(context, {0});
  update<2, 1>(context, Sgd{scalar(context, 2), scale, attr(context, "weight_decay", 0)});
}

enum class Nesterov { kNo, kYes };
template <Nesterov kNesterov>
struct Momentum {
  float lr, scale, decay, momentum;
  void operator()(F32 d, const VF32* in, VF32* out) const {
    const VF32 w = in[0], m = hn::Set(d, momentum);
    const VF32 g = hn::MulAdd(hn::Set(d, decay), w, hn::Mul(in[1], hn::Set(d, scale)));
    const VF32 u = hn::MulAdd(m, in[2], g);
    out[0] = hn::NegMulAdd(hn::Set(d, lr), kNesterov == Nesterov::kYes ? hn::MulAdd(m, u, g) : u, w);
    out[1] = u;
  }
};
template <Nesterov kNesterov>
void run_momentum(const KernelContext& context, float scale) {
  update<3, 2>(context, Momentum<kNesterov>{scalar(context, 3), scale, attr(context, "weight_decay", 0),
                                            attr(context, "momentum")});
}
void momentum(const KernelContext& context) {
  const float scale = scalar(context, 4);
  if (!std::isfinite(scale)) return keep<2>(context, {0, 2});
  context.attrs.integer("nesterov", 0) ? run_momentum<Nesterov::kYes>(context, scale)
                                       : run_momentum<Nesterov::kNo>(context, scale);
}

// The moments of adam and lamb, and the direction m̂ / (√v̂ + eps) they give.
struct Moments {
  float scale, beta1, beta2, eps;
  float correction1, correction2;  // 1 / (1 − beta^step)

  Moments(const KernelContext& context, float gradient_scale, float step)
      : scale(gradient_scale),
        beta1(attr(context, "beta1")),
        beta2(attr(context, "beta2")),
        eps(attr(context, "eps")),
        correction1(correction(context.attrs.real("beta1"), step)),
        correction2(correction(context.attrs.real("beta2"), step)) {}
  static float correction(double beta, double step) {
    return static_cast<float>(1 / (1 - std::pow(beta, step)));
  }

  // Updates m and v by g, which is scaled already.
  HWY_INLINE VF32 direction(F32 d, VF32 g, VF32* m, VF32* v) const {
    *m = hn::MulAdd(hn::Set(d, beta1), *m, hn::Mul(hn::Set(d, 1 - beta1), g));
    *v = hn::MulAdd(hn::Set(d, beta2), *v, hn::Mul(hn::Mul(hn::Set(d, 1 - beta2), g), g));
    const VF32 root = hn::Sqrt(hn::Mul(*v, hn::Set(d, correction2)));
    return hn::Div(hn::Mul(*m, hn::Set(d, correction1)), hn::Add(root, hn::Set(d, eps)));
  }
};

struct Adam {
  Moments moments;
  float lr;
  float coupled_decay;    // added to the gradient
  float decoupled_decay;  // taken off the weight: AdamW
  void operator()(F32 d, const VF32* in, VF32* out) const {
    const VF32 w = in[0];
    const VF32 g = hn::MulAdd(hn::Set(d, coupled_decay), w, hn::Mul(in[1], hn::Set(d, moments.scale)));
    out[1] = in[2];
    out[2] = in[3];
    const VF32 direction = moments.direction(d, g, &out[1], &out[2]);
    out[0] = hn::NegMulAdd(hn::Set(d, lr), hn::MulAdd(hn::Set(d, decoupled_decay), w, direction), w);
  }
};
void adam(const KernelContext& context) {
  const float scale = scalar(context, 5);
  if (!std::isfinite(scale)) return keep<3>(context, {0, 2, 3});
  const float decay = attr(context, "weight_decay", 0);
  const bool decoupled = context.attrs.integer("decoupled", 1) != 0;
  update<4, 3>(context, Adam{Moments(context, scale, scalar(context, 6)), scalar(context, 4),
                             decoupled ? 0 : decay, decoupled ? decay : 0});
}

struct LambDirection {
  Moments moments;
  float decay;
  void operator()(F32 d, const VF32* in, VF32* out) const {
    out[1] = in[2];
    out[2] = in[3];
    const VF32 g = hn::Mul(in[1], hn::Set(d, moments.scale));
    out[0] = hn::MulAdd(hn::Set(d, decay), in[0], moments.direction(d, g, &out[1], &out[2]));
  }
};
// Direction of a skipped step: none.
struct NoDirection {
  void operator()(F32 d, const VF32* in, VF32* out) const {
    out[0] = hn::Zero(d);
    out[1] = in[2];
    out[2] = in[3];
  }
};
void lamb_direction(const KernelContext& context) {
  const float scale = scalar(context, 4);
  if (!std::isfinite(scale)) return update<4, 3>(context, NoDirection());
  update<4, 3>(context,
               LambDirection{Moments(context, scale, scalar(context, 5)), attr(context, "weight_decay", 0)});
}

struct Step {
  float rate;
  void operator()(F32 d, const VF32* in, VF32* out) const {
    out[0] = hn::NegMulAdd(hn::Set(d, rate), in[1], in[0]);
  }
};
void lamb_apply(const KernelContext& context) {
  if (!std::isfinite(scalar(context, 5))) return keep<1>(context, {0});
  const double w_norm = std::sqrt(static_cast<double>(scalar(context, 2)));
  const double r_norm = std::sqrt(static_cast<double>(scalar(context, 3)));
  const double trust = w_norm > 0 && r_norm > 0 ? w_norm / r_norm : 1;
  update<2, 1>(context, Step{static_cast<float>(trust * scalar(context, 4))});
}

struct Lars {
  float rate, scale, decay, momentum;
  void operator()(F32 d, const VF32* in, VF32* out) const {
    const VF32 g = hn::MulAdd(hn::Set(d, decay), in[0], hn::Mul(in[1], hn::Set(d, scale)));
    out[1] = hn::MulAdd(hn::Set(d, momentum), in[2], hn::Mul(hn::Set(d, rate), g));
    out[0] = hn::Sub(in[0], out[1]);
  }
};
void lars(const KernelContext& context) {
  const float scale = scalar(context, 6);
  if (!std::isfinite(scale)) return keep<2>(context, {0, 2});
  const double decay = context.attrs.real("weight_decay");
  const double w_norm = std::sqrt(static_cast<double>(scalar(context, 3)));
  const double g_norm = std::sqrt(static_cast<double>(scalar(context, 4))) * std::abs(scale);
  const bool known = w_norm > 0 && g_norm > 0;
  const double trust = known ? context.attrs.real("trust") * w_norm / (g_norm + decay * w_norm) : 1;
  update<3, 2>(context, Lars{static_cast<float>(trust * scalar(context, 5)), scale, static_cast<float>(decay),
                             attr(context, "momentum")});
}

void gradient_scale(const KernelContext& context) {
  const double max_norm = context.attrs.real("max_norm", 0);
  const double divisor = static_cast<double>(scalar(context, 1)) * scalar(context, 2);
  const double norm = std::sqrt(static_cast<double>(scalar(context, 0))) / divisor;
  double scale = 1 / divisor;
  if (max_norm > 0 && norm > max_norm) scale *= max_norm / norm;
  *context.out<float>(0) = std::isfinite(norm) ? static_cast<float>(scale) : std::nanf("");
  *context.out<float>(1) = static_cast<float>(norm);
}

}  // namespace

void add_optimizer_kernels(KernelTable& table) {
  table.add("adam", DType::f32, {adam});
  table.add("gradient_scale", DType::f32, {gradient_scale});
  table.add("lamb_apply", DType::f32, {lamb_apply});
  table.add("lamb_direction", DType::f32, {lamb_direction});
  table.add("lars", DType::f32, {lars});
  table.add("momentum", DType::f32, {momentum});
  table.add("sgd", DType::f32, {sgd});
}

}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::cpu {

HWY_EXPORT(add_optimizer_kernels);
void add_optimizer(KernelTable& table) {
  HWY_DYNAMIC_DISPATCH(add_optimizer_kernels)(table);
}

}  // namespace trireme::cpu
#endif
