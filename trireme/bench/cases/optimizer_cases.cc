// Cases of the optimizer updates. All their tensors are f32 whatever the format of the model, but for
// gradients.
#include <cmath>
#include <limits>

#include "trireme/bench/cases/reference.h"

namespace trireme::bench {
namespace optimizer_reference {
namespace {

double value(const RefTensor& tensor) {
  return tensor.values[0];
}

// Calls body(i) for each element, or does nothing when the step is skipped.
template <typename Body>
void for_each(const RefTensor& w, const RefTensor& scale, const Body& body) {
  if (!std::isfinite(value(scale))) return;
  for (size_t i = 0; i < w.values.size(); ++i) body(i);
}

RefTensors sgd(const RefTensors& in, const Attrs& attrs) {
  RefTensor w = in[0];
  for_each(w, in[3], [&](size_t i) {
    w.values[i] -=
        value(in[2]) * (in[1].values[i] * value(in[3]) + attrs.real("weight_decay", 0) * in[0].values[i]);
  });
  return {w};
}

RefTensors momentum(const RefTensors& in, const Attrs& attrs) {
  RefTensor w = in[0], u = in[2];
  const double m = attrs.real("momentum");
  for_each(w, in[4], [&](size_t i) {
    const double g = in[1].values[i] * value(in[4]) + attrs.real("weight_decay", 0) * in[0].values[i];
    u.values[i] = m * in[2].values[i] + g;
    w.values[i] -= value(in[3]) * (attrs.integer("nesterov", 0) ? g + m * u.values[i] : u.values[i]);
  });
  return {w, u};
}

// Updates m and v and returns the direction they give.
double adam_direction(double g, double step, const Attrs& attrs, double* m, double* v) {
  const double b1 = attrs.real("beta1"), b2 = attrs.real("beta2");
  *m = b1 * *m + (1 - b1) * g;
  *v = b2 * *v + (1 - b2) * g * g;
  return *m / (1 - std::pow(b1, step)) / (std::sqrt(*v / (1 - std::pow(b2, step))) + attrs.real("eps"));
}

RefTensors adam(const RefTensors& in, const Attrs& attrs) {
  RefTensor w = in[0], m = in[2], v = in[3];
  const double decay = attrs.real("weight_decay");
  const bool decoupled = attrs.integer("decoupled", 1) != 0;
  for_each(w, in[5], [&](size_t i) {
    const double g = in[1].values[i] * value(in[5]) + (decoupled ? 0 : decay * in[0].values[i]);
    const double direction = adam_direction(g, value(in[6]), attrs, &m.values[i], &v.values[i]);
    w.values[i] -= value(in[4]) * (direction + (decoupled ? decay * in[0].values[i] : 0));
  });
  return {w, m, v};
}

RefTensors lars(const RefTensors& in, const Attrs& attrs) {
  RefTensor w = in[0], u = in[2];
  const double decay = attrs.real("weight_decay"), scale = value(in[6]);
  const double w_norm = std::sqrt(value(in[3])), g_norm = std::sqrt(value(in[4])) * std::abs(scale);
  const double trust =
      w_norm == 0 || g_norm == 0 ? 1 : attrs.real("trust") * w_norm / (g_norm + decay * w_norm);
  for_each(w, in[6], [&](size_t i) {
    u.values[i] = attrs.real("momentum") * in[2].values[i] +
                  value(in[5]) * trust * (in[1].values[i] * scale + decay * in[0].values[i]);
    w.values[i] -= u.values[i];
  });
  return {w, u};
}

RefTensors adam_rounded(const RefTensors& in, const Attrs& attrs) {
  RefTensors out = adam(in, attrs);
  out.push_back(out[0]);
  out.back().dtype = in[1].dtype;
  return out;
}

RefTensors lamb_direction(const RefTensors& in, const Attrs& attrs) {
  RefTensor r = like(in[0]), m = in[2], v = in[3];
  for_each(r, in[4], [&](size_t i) {
    const double g = in[1].values[i] * value(in[4]);
    r.values[i] = adam_direction(g, value(in[5]), attrs, &m.values[i], &v.values[i]) +
                  attrs.real("weight_decay") * in[0].values[i];
  });
  return {r, m, v};
}

RefTensors lamb_apply(const RefTensors& in, const Attrs&) {
  RefTensor w = in[0];
  const double w_norm = std::sqrt(value(in[2])), r_norm = std::sqrt(value(in[3]));
  const double trust = w_norm == 0 || r_norm == 0 ? 1 : w_norm / r_norm;
  for_each(w, in[5], [&](size_t i) { w.values[i] -= value(in[4]) * trust * in[1].values[i]; });
  return {w};
}

RefTensors gradient_scale(const RefTensors& in, const Attrs& attrs) {
  RefTensor scale = RefTensor::zeros({}), norm = scale;
  const double divisor = value(in[1]) * value(in[2]), max_norm = attrs.real("max_norm", 0);
  norm.values[0] = std::sqrt(value(in[0])) / divisor;
  scale.values[0] = (max_norm > 0 ? std::min(1.0, max_norm / value(norm)) : 1) / divisor;
  if (!std::isfinite(value(norm))) scale.values[0] = std::numeric_limits<double>::quiet_NaN();
  return {scale, norm};
}

constexpr double kInfinity = 1e39;  // beyond f32
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

CaseInput scalar(double number) {
  return kept_f32({}, number, number);
}

struct Step {
  const char* label;
  Shape shape;
  double scale;
};

void add_updates(std::vector<OpCase>& cases, const Step& step) {
  const CaseInput w = kept_f32(step.shape), square = kept_f32(step.shape, 0.01, 1);
  const CaseInput g{step.shape};
  const CaseInput lr = scalar(0.05), scale = scalar(step.scale), number = scalar(3);
  const auto push = [&](const char* op, const char* variant, std::vector<CaseInput> inputs, Attrs attrs,
                        RefTensors (*reference)(const RefTensors&, const Attrs&)) {
    cases.push_back({op, std::string(step.label) + variant, std::move(inputs), std::move(attrs), reference,
                     1e-5, Differentiable::kNo});
  };
  const Attrs plain{{"momentum", 0.9}};
  const Attrs heavy{{"momentum", 0.9}, {"nesterov", int64_t{1}}, {"weight_decay", 0.1}};
  Attrs moments{{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}};
  push("sgd", "", {w, g, lr, scale}, {}, sgd);
  push("sgd", "_decay", {w, g, lr, scale}, {{"weight_decay", 0.1}}, sgd);
  push("momentum", "", {w, g, w, lr, scale}, plain, momentum);
  push("momentum", "_nesterov", {w, g, w, lr, scale}, heavy, momentum);
  push("adam", "", {w, g, w, square, lr, scale, number}, moments, adam);
  push("adam_rounded", "", {w, g, w, square, lr, scale, number}, moments, adam_rounded);
  push("lamb_direction", "", {w, g, w, square, scale, number}, moments, lamb_direction);
  moments.set("decoupled", int64_t{0});
  push("adam", "_coupled", {w, g, w, square, lr, scale, number}, moments, adam);
  push("lamb_apply", "", {w, w, scalar(5), scalar(3), lr, scale}, {}, lamb_apply);
  push("lamb_apply", "_zero_norm", {w, w, scalar(0), scalar(3), lr, scale}, {}, lamb_apply);
  const Attrs trust{{"momentum", 0.9}, {"weight_decay", 0.1}, {"trust", 0.02}};
  push("lars", "", {w, g, w, scalar(5), scalar(3), lr, scale}, trust, lars);
  push("lars", "_zero_norm", {w, g, w, scalar(5), scalar(0), lr, scale}, trust, lars);
}

}  // namespace
}  // namespace optimizer_reference

std::vector<OpCase> optimizer_cases() {
  using namespace optimizer_reference;
  std::vector<OpCase> cases;
  for (const Step& step : {Step{"odd", {3, 37}, 0.25}, Step{"scalar", {}, 1}, Step{"large", {7, 5003}, 0.5},
                           Step{"overflow", {3, 37}, kInfinity}, Step{"nan", {3, 37}, kNan}}) {
    add_updates(cases, step);
  }

  const auto scaled = [&](const char* label, double g_sq, double max_norm) {
    cases.push_back({"gradient_scale",
                     label,
                     {scalar(g_sq), scalar(16), scalar(1024)},
                     {{"max_norm", max_norm}},
                     gradient_scale,
                     1e-5,
                     Differentiable::kNo});
  };
  scaled("unclipped", 1e9, 0);
  scaled("below", 1e6, 1);
  scaled("clipped", 1e9, 1);
  scaled("zero", 0, 1);
  scaled("overflow", kInfinity, 1);
  scaled("nan", kNan, 0);
  return cases;
}

}  // namespace trireme::bench
