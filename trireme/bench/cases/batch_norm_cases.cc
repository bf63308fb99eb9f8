// Cases of batch_norm, batch_norm_grad and batch_norm_inference, and of what they expand to.
#include <algorithm>
#include <cmath>
#include <string>

#include "trireme/bench/cases/reference.h"

namespace trireme::bench {
namespace batch_norm_reference {
namespace {

// Calls visit(index of x, channel, index in [groups, channels]) for every element.
template <typename Visit>
void for_each_element(const Shape& x, int64_t groups, const Visit& visit) {
  const int64_t plane = x.elements(2, x.rank()), group = x.elements() / groups;
  for (int64_t i = 0; i < x.elements(); ++i) {
    const int64_t c = i / plane % x[1];
    visit(i, c, i / group * x[1] + c);
  }
}
int64_t groups_of(const Attrs& attrs) {
  return attrs.integer("groups", 1);
}

RefTensors batch_norm(const RefTensors& in, const Attrs& attrs) {
  const RefTensor &x = in[0], &gain = in[1], &bias = in[2], &running_mean = in[3], &running_var = in[4];
  const int64_t groups = groups_of(attrs), channels = x.shape[1];
  const double size = static_cast<double>(x.shape.elements() / channels / groups),
               momentum = attrs.real("momentum", 0.1),
               share = 1 / static_cast<double>(attrs.integer("all_groups", groups));
  RefTensor y = RefTensor::zeros(x.shape, x.dtype), mean = RefTensor::zeros({groups, channels}), var = mean,
            rstd = mean;
  RefTensor new_mean = RefTensor::zeros({channels}), new_var = new_mean;
  for_each_element(x.shape, groups,
                   [&](int64_t i, int64_t, int64_t at) { mean.values[at] += x.values[i] / size; });
  for_each_element(x.shape, groups, [&](int64_t i, int64_t, int64_t at) {
    var.values[at] += std::pow(x.values[i] - mean.values[at], 2) / size;
  });
  for (int64_t at = 0; at < groups * channels; ++at) {
    const int64_t c = at % channels;
    rstd.values[at] = 1 / std::sqrt(var.values[at] + attrs.real("eps"));
    new_mean.values[c] += share * ((1 - momentum) * running_mean.values[c] + momentum * mean.values[at]);
    new_var.values[c] +=
        share * ((1 - momentum) * running_var.values[c] + momentum * var.values[at] * size / (size - 1));
  }
  for_each_element(x.shape, groups, [&](int64_t i, int64_t c, int64_t at) {
    y.values[i] = (x.values[i] - mean.values[at]) * rstd.values[at] * gain.values[c] + bias.values[c];
  });
  return {y, mean, rstd, new_mean, new_var};
}

RefTensors batch_norm_grad_sums(const RefTensors& in, const Attrs&) {
  const RefTensor &dy = in[0], &x = in[1], &mean = in[2], &rstd = in[3];
  RefTensor dgain = RefTensor::zeros({x.shape[1]}), dbias = dgain;
  for_each_element(x.shape, 1, [&](int64_t i, int64_t c, int64_t) {
    dgain.values[c] += dy.values[i] * (x.values[i] - mean.values[c]) * rstd.values[c];
    dbias.values[c] += dy.values[i];
  });
  return {dgain, dbias};
}

RefTensors batch_norm_grad_input(const RefTensors& in, const Attrs& attrs) {
  const RefTensor &dy = in[0], &x = in[1], &gain = in[2], &mean = in[3], &rstd = in[4], &dgain = in[5],
                  &dbias = in[6];
  const double size = attrs.real("count");
  RefTensor dx = RefTensor::zeros(x.shape, x.dtype);
  for_each_element(x.shape, 1, [&](int64_t i, int64_t c, int64_t) {
    const double hat = (x.values[i] - mean.values[c]) * rstd.values[c];
    dx.values[i] = gain.values[c] * rstd.values[c] *
                   (dy.values[i] - dbias.values[c] / size - hat * dgain.values[c] / size);
  });
  return {dx};
}

// As the gradient of batch_norm, in which mean and rstd are functions of x.
RefTensors batch_norm_grad(const RefTensors& in, const Attrs& attrs) {
  const RefTensor &dy = in[0], &x = in[1], &gain = in[2], &mean = in[3], &rstd = in[4];
  const int64_t groups = groups_of(attrs);
  const double size = static_cast<double>(x.shape.elements() / x.shape[1] / groups);
  RefTensor dx = RefTensor::zeros(x.shape, x.dtype), dgain = RefTensor::zeros(gain.shape, gain.dtype),
            dbias = dgain;
  RefTensor gain_sums = RefTensor::zeros(mean.shape), bias_sums = gain_sums;
  const auto hat = [&](int64_t i, int64_t at) { return (x.values[i] - mean.values[at]) * rstd.values[at]; };
  for_each_element(x.shape, groups, [&](int64_t i, int64_t c, int64_t at) {
    gain_sums.values[at] += dy.values[i] * hat(i, at);
    bias_sums.values[at] += dy.values[i];
    dgain.values[c] += dy.values[i] * hat(i, at);
    dbias.values[c] += dy.values[i];
  });
  for_each_element(x.shape, groups, [&](int64_t i, int64_t c, int64_t at) {
    dx.values[i] = gain.values[c] * rstd.values[at] *
                   (dy.values[i] - bias_sums.values[at] / size - hat(i, at) * gain_sums.values[at] / size);
  });
  return {dx, dgain, dbias};
}

RefTensors channel_sum(const RefTensors& in, const Attrs&) {
  RefTensor sum = RefTensor::zeros({in[0].shape[1]});
  for_each_element(in[0].shape, 1, [&](int64_t i, int64_t c, int64_t) { sum.values[c] += in[0].values[i]; });
  return {sum};
}

RefTensors channel_squares(const RefTensors& in, const Attrs&) {
  RefTensor squares = RefTensor::zeros({in[0].shape[1]});
  for_each_element(in[0].shape, 1, [&](int64_t i, int64_t c, int64_t) {
    squares.values[c] += std::pow(in[0].values[i] - in[1].values[c], 2);
  });
  return {squares};
}

RefTensors batch_norm_inference(const RefTensors& in, const Attrs& attrs) {
  const RefTensor &x = in[0], &gain = in[1], &bias = in[2], &mean = in[3], &var = in[4];
  RefTensor y = RefTensor::zeros(x.shape, x.dtype);
  for_each_element(x.shape, 1, [&](int64_t i, int64_t c, int64_t) {
    y.values[i] =
        (x.values[i] - mean.values[c]) / std::sqrt(var.values[c] + attrs.real("eps")) * gain.values[c] +
        bias.values[c];
  });
  return {y};
}

// With channels last, and what may stand behind the norm.
RefTensors batch_norm_nhwc(const RefTensors& in, const Attrs& attrs) {
  RefTensors out = by_channels_first<batch_norm>(in, attrs);
  const std::string_view epilogue = attrs.text("epilogue", "none");
  if (epilogue == "none") return out;
  RefTensor z = stored(out[0]);
  for (size_t i = 0; i < z.values.size(); ++i) {
    if (epilogue == "add_relu") z.values[i] += in[5].values[i];
    z.values[i] = std::max(0.0, z.values[i]);
  }
  out[0] = z;
  return out;
}

RefTensors batch_norm_nhwc_grad(const RefTensors& in, const Attrs& attrs) {
  const std::string_view epilogue = attrs.text("epilogue", "none");
  const int64_t channels = in[2].shape[0];
  RefTensors first(in.begin(), in.begin() + 5);
  RefTensor& ds = first[0];
  for (size_t i = 0; i < ds.values.size(); ++i) {
    const auto c = static_cast<size_t>(static_cast<int64_t>(i) % channels);
    if (in.size() > 6) ds.values[i] += in[6].values[i];
    const double before_relu =
        epilogue == "relu"
            ? (in[1].values[i] - in[3].values[c]) * in[4].values[c] * in[2].values[c] + in[5].values[c]
        : epilogue == "add_relu" ? in[5].values[i]
                                 : 1;
    if (!(before_relu > 0)) ds.values[i] = 0;
  }
  ds = stored(ds);
  RefTensors out = by_channels_first<batch_norm_grad>(first, {});
  if (epilogue == "add_relu") out.push_back(ds);
  return out;
}

void add_nhwc_cases(const std::string& label, const Shape& shape, double low, double high,
                    std::vector<OpCase>& cases) {
  const CaseInput x{shape, DType::f32, low, high}, image{shape}, channel{Shape{shape[3]}};
  const CaseInput running = kept_f32({shape[3]}), positive = kept_f32({shape[3]}, 0.5, 2),
                  mean = kept_f32({1, shape[3]}, low, high), rstd = kept_f32({1, shape[3]}, 0.5, 2);
  for (const char* epilogue : {"none", "relu", "add_relu"}) {
    const bool relu = std::string_view(epilogue) == "relu", add = std::string_view(epilogue) == "add_relu";
    const auto one = [&](std::string op, std::string more, std::vector<CaseInput> inputs, Attrs attrs,
                         auto reference) {
      attrs.set("epilogue", epilogue);
      cases.push_back({.op = std::move(op),
                       .label = label + "_" + epilogue + more,
                       .inputs = std::move(inputs),
                       .attrs = attrs,
                       .reference = reference,
                       .tolerance = high - low < high ? 1e-4 : 1e-5});
    };
    std::vector<CaseInput> forward{x, channel, channel, running, positive},
        backward{image, x, channel, mean, rstd};
    if (add) forward.push_back(image);
    if (relu) backward.push_back(channel);
    if (add) backward.push_back(image);
    one("batch_norm_nhwc", "", forward, {{"eps", 1e-5}, {"momentum", 0.1}}, batch_norm_nhwc);
    one("batch_norm_nhwc_grad", "", backward, {}, batch_norm_nhwc_grad);
    if (!add) continue;
    backward.push_back(image);
    one("batch_norm_nhwc_grad", "_of_two", backward, {}, batch_norm_nhwc_grad);
  }
}

void add_cases(const std::string& label, const Shape& shape, double low, double high,
               std::vector<OpCase>& cases, int64_t groups = 1) {
  const CaseInput x{shape, DType::f32, low, high}, dy{shape}, channel{Shape{shape[1]}};
  const CaseInput running = kept_f32({shape[1]}), positive = kept_f32({shape[1]}, 0.5, 2);
  const CaseInput centre = kept_f32({shape[1]}, low, high);
  const CaseInput centres = kept_f32({groups, shape[1]}, low, high),
                  rstds = kept_f32({groups, shape[1]}, 0.5, 2);
  const auto add = [&](std::string op, std::vector<CaseInput> inputs, const Attrs& attrs, auto reference) {
    // Values far from zero lose digits when their mean is taken away, in the input's own rounding.
    const double tolerance = high - low < high ? 1e-4 : 1e-5;
    cases.push_back({.op = std::move(op),
                     .label = label,
                     .inputs = std::move(inputs),
                     .attrs = attrs,
                     .reference = reference,
                     .tolerance = tolerance});
  };
  add("batch_norm", {x, channel, channel, running, positive},
      {{"eps", 1e-5}, {"momentum", 0.1}, {"groups", groups}}, batch_norm);
  add("batch_norm_grad", {dy, x, channel, centres, rstds}, {{"groups", groups}}, batch_norm_grad);
  if (groups > 1) return;
  add("batch_norm_inference", {x, channel, channel, centre, positive}, {{"eps", 1e-5}}, batch_norm_inference);
  add("channel_sum", {x}, {}, channel_sum);
  add("channel_squares", {x, centre}, {}, channel_squares);
  add("batch_norm_grad_sums", {dy, x, centre, positive}, {}, batch_norm_grad_sums);
  add("batch_norm_grad_input", {dy, x, channel, centre, positive, running, running}, {{"count", 40.0}},
      batch_norm_grad_input);
}

}  // namespace
}  // namespace batch_norm_reference

std::vector<OpCase> batch_norm_cases() {
  using namespace batch_norm_reference;
  std::vector<OpCase> cases;
  add_cases("small", {3, 4, 5, 7}, -1, 1, cases);
  add_cases("vectors_and_rest", {2, 3, 9, 11}, -2, 3, cases);
  add_cases("no_spatial_dims", {17, 5}, -1, 1, cases);
  add_cases("three_spatial_dims", {2, 3, 2, 3, 4}, -1, 1, cases);
  add_cases("one_spatial_dim", {2, 2, 33}, -1, 1, cases);
  add_cases("several_blocks", {3, 2, 50, 100}, -1, 1, cases);
  add_cases("many_planes", {70, 2, 8, 8}, -1, 1, cases);
  add_cases("far_from_zero", {4, 3, 16, 16}, 100, 101, cases);
  add_cases("two_groups", {6, 4, 3, 5}, -1, 1, cases, 2);
  add_cases("six_groups", {12, 3, 4, 4}, -1, 1, cases, 6);
  add_nhwc_cases("odd_channels", {3, 4, 5, 7}, -1, 1, cases);
  add_nhwc_cases("whole_packs", {3, 5, 7, 24}, -1, 2, cases);
  add_nhwc_cases("many_rows", {5, 31, 33, 16}, -1, 1, cases);
  add_nhwc_cases("many_channels", {2, 3, 3, 520}, -1, 1, cases);
  add_nhwc_cases("far_from_zero", {4, 16, 16, 8}, 100, 101, cases);
  return cases;
}

}  // namespace trireme::bench
