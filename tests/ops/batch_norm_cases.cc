// Cases of batch_norm, batch_norm_grad and batch_norm_inference.
#include <cmath>
#include <string>

#include "tests/ops/reference.h"

namespace trireme::testing {
namespace {

// Calls visit(index of x, channel) for every element.
template <typename Visit>
void for_each_element(const Shape& x, const Visit& visit) {
  const int64_t plane = x.elements(2, x.rank());
  for (int64_t i = 0; i < x.elements(); ++i) visit(i, i / plane % x[1]);
}

RefTensors batch_norm(const RefTensors& in, const Attrs& attrs) {
  const RefTensor &x = in[0], &gain = in[1], &bias = in[2], &running_mean = in[3], &running_var = in[4];
  const Shape channels{x.shape[1]};
  const double size = static_cast<double>(x.shape.elements() / x.shape[1]),
               momentum = attrs.real("momentum", 0.1);
  RefTensor y = RefTensor::zeros(x.shape, x.dtype), mean = RefTensor::zeros(channels), var = mean,
            rstd = mean;
  RefTensor new_mean = mean, new_var = mean;
  for_each_element(x.shape, [&](int64_t i, int64_t c) { mean.values[c] += x.values[i] / size; });
  for_each_element(x.shape, [&](int64_t i, int64_t c) {
    var.values[c] += std::pow(x.values[i] - mean.values[c], 2) / size;
  });
  for (int64_t c = 0; c < x.shape[1]; ++c) {
    rstd.values[c] = 1 / std::sqrt(var.values[c] + attrs.real("eps"));
    new_mean.values[c] = (1 - momentum) * running_mean.values[c] + momentum * mean.values[c];
    new_var.values[c] = (1 - momentum) * running_var.values[c] + momentum * var.values[c] * size / (size - 1);
  }
  for_each_element(x.shape, [&](int64_t i, int64_t c) {
    y.values[i] = (x.values[i] - mean.values[c]) * rstd.values[c] * gain.values[c] + bias.values[c];
  });
  return {y, mean, rstd, new_mean, new_var};
}

// As the gradient of batch_norm, in which mean and rstd are functions of x.
RefTensors batch_norm_grad(const RefTensors& in, const Attrs&) {
  const RefTensor &dy = in[0], &x = in[1], &gain = in[2], &mean = in[3], &rstd = in[4];
  const double size = static_cast<double>(x.shape.elements() / x.shape[1]);
  RefTensor dx = RefTensor::zeros(x.shape, x.dtype), dgain = RefTensor::zeros(gain.shape, gain.dtype),
            dbias = dgain;
  const auto hat = [&](int64_t i, int64_t c) { return (x.values[i] - mean.values[c]) * rstd.values[c]; };
  for_each_element(x.shape, [&](int64_t i, int64_t c) {
    dgain.values[c] += dy.values[i] * hat(i, c);
    dbias.values[c] += dy.values[i];
  });
  for_each_element(x.shape, [&](int64_t i, int64_t c) {
    dx.values[i] = gain.values[c] * rstd.values[c] *
                   (dy.values[i] - dbias.values[c] / size - hat(i, c) * dgain.values[c] / size);
  });
  return {dx, dgain, dbias};
}

RefTensors batch_norm_inference(const RefTensors& in, const Attrs& attrs) {
  const RefTensor &x = in[0], &gain = in[1], &bias = in[2], &mean = in[3], &var = in[4];
  RefTensor y = RefTensor::zeros(x.shape, x.dtype);
  for_each_element(x.shape, [&](int64_t i, int64_t c) {
    y.values[i] =
        (x.values[i] - mean.values[c]) / std::sqrt(var.values[c] + attrs.real("eps")) * gain.values[c] +
        bias.values[c];
  });
  return {y};
}

void add_cases(const std::string& label, const Shape& shape, double low, double high, OpCase::Use use,
               std::vector<OpCase>& cases) {
  const CaseInput x{shape, DType::f32, low, high}, dy{shape}, channel{Shape{shape[1]}};
  const CaseInput running = kept_f32({shape[1]}), positive = kept_f32({shape[1]}, 0.5, 2);
  const CaseInput centre = kept_f32({shape[1]}, low, high);
  const auto add = [&](std::string op, std::vector<CaseInput> inputs, const Attrs& attrs, auto reference) {
    // Values far from zero lose digits when their mean is taken away, in the input's own rounding.
    const double tolerance = high - low < high ? 1e-4 : 1e-5;
    cases.push_back({.op = std::move(op),
                     .label = label,
                     .inputs = std::move(inputs),
                     .attrs = attrs,
                     .reference = reference,
                     .tolerance = tolerance,
                     .use = use});
  };
  add("batch_norm", {x, channel, channel, running, positive}, {{"eps", 1e-5}, {"momentum", 0.1}}, batch_norm);
  add("batch_norm_grad", {dy, x, channel, centre, positive}, {}, batch_norm_grad);
  add("batch_norm_inference", {x, channel, channel, centre, positive}, {{"eps", 1e-5}}, batch_norm_inference);
}

}  // namespace

std::vector<OpCase> batch_norm_cases() {
  constexpr auto kCorrectness = OpCase::Use::kCorrectness, kTiming = OpCase::Use::kTiming;
  std::vector<OpCase> cases;
  add_cases("small", {3, 4, 5, 7}, -1, 1, kCorrectness, cases);
  add_cases("vectors_and_rest", {2, 3, 9, 11}, -2, 3, kCorrectness, cases);
  add_cases("no_spatial_dims", {17, 5}, -1, 1, kCorrectness, cases);
  add_cases("three_spatial_dims", {2, 3, 2, 3, 4}, -1, 1, kCorrectness, cases);
  add_cases("one_spatial_dim", {2, 2, 33}, -1, 1, kCorrectness, cases);
  add_cases("several_blocks", {3, 2, 50, 100}, -1, 1, kCorrectness, cases);
  add_cases("many_planes", {70, 2, 8, 8}, -1, 1, kCorrectness, cases);
  add_cases("far_from_zero", {4, 3, 16, 16}, 100, 101, kCorrectness, cases);
  add_cases("resnet20_16", {64, 16, 32, 32}, -1, 1, kTiming, cases);
  add_cases("resnet20_64", {64, 64, 8, 8}, -1, 1, kTiming, cases);
  add_cases("resnet50_64", {8, 64, 56, 56}, -1, 1, kTiming, cases);
  return cases;
}

}  // namespace trireme::testing
