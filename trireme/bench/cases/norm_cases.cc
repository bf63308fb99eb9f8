// Cases of layer_norm and rms_norm, plain, after an addition, and their gradients.
#include <cmath>

#include "trireme/bench/cases/reference.h"

namespace trireme::bench {
namespace norm_reference {
namespace {

enum class Norm { kLayer, kRms };

Shape without_last(const Shape& shape) {
  return shape.slice(0, shape.rank() - 1);
}

// Outputs y, mean (kLayer only), rstd of x; in[first] is gain, in[first + 1] bias.
template <Norm kNorm>
RefTensors normalized(const RefTensor& x, const RefTensors& in, size_t first, double eps) {
  const size_t width = x.shape.back();
  RefTensor y = like(x);
  RefTensor mean = RefTensor::zeros(without_last(x.shape)), rstd = mean;
  for (size_t row = 0; row < rstd.values.size(); ++row) {
    const double* v = &x.values[row * width];
    double average = 0, squares = 0;
    for (size_t i = 0; i < width; ++i) average += v[i] / static_cast<double>(width);
    if (kNorm == Norm::kRms) average = 0;
    for (size_t i = 0; i < width; ++i) squares += (v[i] - average) * (v[i] - average);
    mean.values[row] = average;
    rstd.values[row] = 1 / std::sqrt(squares / static_cast<double>(width) + eps);
    for (size_t i = 0; i < width; ++i) {
      const double normal = (v[i] - average) * rstd.values[row];
      y.values[row * width + i] = normal * in[first].values[i];
      if (kNorm == Norm::kLayer) y.values[row * width + i] += in[first + 1].values[i];
    }
  }
  return kNorm == Norm::kLayer ? RefTensors{y, mean, rstd} : RefTensors{y, rstd};
}

template <Norm kNorm>
RefTensors norm(const RefTensors& in, const Attrs& attrs) {
  return normalized<kNorm>(in[0], in, 1, attrs.real("eps"));
}

template <Norm kNorm>
RefTensors add_norm(const RefTensors& in, const Attrs& attrs) {
  RefTensor s = like(in[0]);
  for (size_t i = 0; i < s.values.size(); ++i) s.values[i] = in[0].values[i] + in[1].values[i];
  s = stored(s);
  RefTensors outputs = normalized<kNorm>(s, in, 2, attrs.real("eps"));
  outputs.insert(outputs.begin(), s);
  return outputs;
}

template <Norm kNorm>
RefTensors norm_grad(const RefTensors& in, const Attrs&) {
  const RefTensor &dy = in[0], &x = in[1], &gain = in[2], &rstd = in.back();
  const size_t width = x.shape.back();
  const double count = static_cast<double>(width);
  RefTensor dx = like(x), dgain = like(gain), dbias = like(gain);
  for (size_t row = 0; row < rstd.values.size(); ++row) {
    const double mean = kNorm == Norm::kLayer ? in[3].values[row] : 0;
    const auto normal = [&](size_t i) { return (x.values[row * width + i] - mean) * rstd.values[row]; };
    const auto e = [&](size_t i) { return dy.values[row * width + i] * gain.values[i]; };
    double average = 0, dot = 0;
    for (size_t i = 0; i < width; ++i) {
      if (kNorm == Norm::kLayer) average += e(i) / count;
      dot += e(i) * normal(i) / count;
      dgain.values[i] += dy.values[row * width + i] * normal(i);
      dbias.values[i] += dy.values[row * width + i];
    }
    for (size_t i = 0; i < width; ++i) {
      dx.values[row * width + i] = rstd.values[row] * (e(i) - average - normal(i) * dot);
    }
  }
  return kNorm == Norm::kLayer ? RefTensors{dx, dgain, dbias} : RefTensors{dx, dgain};
}

// The gradient with the last input added to dx; of layer_norm also what that adds up to over rows.
template <Norm kNorm>
RefTensors norm_grad_add(const RefTensors& in, const Attrs& attrs) {
  RefTensors results = norm_grad<kNorm>({in.begin(), in.end() - 1}, attrs);
  RefTensor total = like(results[1]);
  for (size_t i = 0; i < in.back().values.size(); ++i) {
    results[0].values[i] += in.back().values[i];
    total.values[i % total.values.size()] += results[0].values[i];
  }
  if (kNorm == Norm::kLayer) results.push_back(total);
  return results;
}

struct NormShape {
  const char* label;
  Shape x;
  double low = -1, high = 1;
};

template <Norm kNorm>
void add_cases(std::vector<OpCase>& cases, const NormShape& shape) {
  const bool layer = kNorm == Norm::kLayer;
  const std::string name = layer ? "layer_norm" : "rms_norm";
  const CaseInput x{shape.x, DType::f32, shape.low, shape.high};
  const CaseInput row{Shape{shape.x.back()}};
  const Shape outer = without_last(shape.x);
  const CaseInput mean = kept_f32(outer), rstd = kept_f32(outer, 0.5, 2);
  const auto vectors = [&](std::vector<CaseInput> inputs) {
    inputs.push_back(row);
    if (layer) inputs.push_back(row);
    return inputs;
  };
  const Attrs eps{{"eps", 1e-5}};
  const auto differences = shape.x.elements() < 1000 ? Differentiable::kYes : Differentiable::kNo;
  cases.push_back({name, shape.label, vectors({x}), eps, norm<kNorm>, 1e-5, differences});
  cases.push_back({"add_" + name, shape.label, vectors({x, x}), eps, add_norm<kNorm>, 1e-5, differences});
  std::vector<CaseInput> grad_inputs{x, x, row};
  if (layer) grad_inputs.push_back(mean);
  grad_inputs.push_back(rstd);
  cases.push_back(
      {name + "_grad", shape.label, grad_inputs, {}, norm_grad<kNorm>, 1e-5, Differentiable::kNo});
  grad_inputs.push_back(x);
  cases.push_back(
      {name + "_grad_add", shape.label, grad_inputs, {}, norm_grad_add<kNorm>, 1e-5, Differentiable::kNo});
}

}  // namespace
}  // namespace norm_reference

std::vector<OpCase> norm_cases() {
  using namespace norm_reference;
  std::vector<OpCase> cases;
  for (const NormShape& shape :
       {NormShape{"odd", {5, 37}}, NormShape{"vector", {19}}, NormShape{"cube", {3, 2, 16}},
        NormShape{"narrow", {7, 3}}, NormShape{"far_from_zero", {5, 100}, 2, 3},
        NormShape{"many_rows", {300, 65}}}) {
    add_cases<Norm::kLayer>(cases, shape);
    add_cases<Norm::kRms>(cases, shape);
  }
  return cases;
}

}  // namespace trireme::bench
