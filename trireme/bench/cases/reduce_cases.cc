// Cases of reductions and softmax.
#include <algorithm>
#include <cmath>
#include <limits>

#include "trireme/bench/cases/reference.h"

namespace trireme::bench {
namespace reduce_reference {
namespace {

using Dims = std::vector<int64_t>;

// For each element of `shape`, the flat index of the output it is reduced into.
std::vector<int64_t> output_of(const Shape& shape, const Dims& dims, Shape* output_shape) {
  const auto kept = [&](int dim) { return std::ranges::find(dims, dim) == dims.end(); };
  Shape output;
  for (int i = 0; i < shape.rank(); ++i) {
    if (kept(i)) output.push_back(shape[i]);
  }
  std::vector<int64_t> result(shape.elements());
  for (size_t flat = 0; flat < result.size(); ++flat) {
    std::vector<int64_t> index;
    const auto whole = unravel(flat, shape);
    for (int i = 0; i < shape.rank(); ++i) {
      if (kept(i)) index.push_back(whole[i]);
    }
    result[flat] = ravel(index, output);
  }
  *output_shape = output;
  return result;
}

RefTensors sum(const RefTensors& in, const Attrs& attrs) {
  Shape shape;
  const auto output = output_of(in[0].shape, attrs.integers("dims"), &shape);
  RefTensor y = like(in[0], shape);
  for (size_t i = 0; i < output.size(); ++i) y.values[output[i]] += in[0].values[i];
  return {y};
}
RefTensors mean(const RefTensors& in, const Attrs& attrs) {
  RefTensors y = sum(in, attrs);
  const double count = static_cast<double>(in[0].values.size()) / static_cast<double>(y[0].values.size());
  for (double& value : y[0].values) value /= count;
  return y;
}
RefTensors max(const RefTensors& in, const Attrs& attrs) {
  Shape shape;
  const auto output = output_of(in[0].shape, attrs.integers("dims"), &shape);
  RefTensor y = like(in[0], shape);
  std::ranges::fill(y.values, -std::numeric_limits<double>::infinity());
  for (size_t i = 0; i < output.size(); ++i)
    y.values[output[i]] = std::max(y.values[output[i]], in[0].values[i]);
  return {y};
}
RefTensors max_grad(const RefTensors& in, const Attrs& attrs) {
  Shape shape;
  const auto output = output_of(in[1].shape, attrs.integers("dims"), &shape);
  std::vector<double> ties(shape.elements());
  const auto is_max = [&](size_t i) { return in[1].values[i] == in[2].values[output[i]]; };
  for (size_t i = 0; i < output.size(); ++i) ties[output[i]] += is_max(i);
  RefTensor dx = like(in[1]);
  for (size_t i = 0; i < output.size(); ++i) {
    if (is_max(i)) dx.values[i] = in[0].values[output[i]] / ties[output[i]];
  }
  return {dx};
}
RefTensors sum_squares(const RefTensors& in, const Attrs&) {
  RefTensor y = RefTensor::zeros({});
  for (const RefTensor& one : in) {
    for (double x : one.values) y.values[0] += x * x;
  }
  return {y};
}

RefTensors softmax(const RefTensors& in, const Attrs&) {
  RefTensor y = like(in[0]);
  const size_t width = in[0].shape.back();
  for (size_t row = 0; row < y.values.size(); row += width) {
    const double* x = &in[0].values[row];
    const double largest = *std::max_element(x, x + width);
    double total = 0;
    for (size_t i = 0; i < width; ++i) total += std::exp(x[i] - largest);
    for (size_t i = 0; i < width; ++i) y.values[row + i] = std::exp(x[i] - largest) / total;
  }
  return {y};
}
RefTensors softmax_grad(const RefTensors& in, const Attrs&) {
  RefTensor dx = like(in[0]);
  const size_t width = in[0].shape.back();
  for (size_t row = 0; row < dx.values.size(); row += width) {
    const double *dy = &in[0].values[row], *y = &in[1].values[row];
    double dot = 0;
    for (size_t i = 0; i < width; ++i) dot += dy[i] * y[i];
    for (size_t i = 0; i < width; ++i) dx.values[row + i] = y[i] * (dy[i] - dot);
  }
  return {dx};
}

void add_reductions(std::vector<OpCase>& cases) {
  const auto no = Differentiable::kNo;
  const auto with = [&](const char* label, Shape shape, Dims dims, Differentiable differences) {
    const Attrs attrs{{"dims", dims}};
    const CaseInput x{shape, DType::f32, -0.5, 1};  // sums of numbers around zero would measure cancellation
    cases.push_back({"sum", label, {x}, attrs, sum, 1e-5, differences});
    cases.push_back({"mean", label, {x}, attrs, mean, 1e-5, differences});
    cases.push_back({"max", label, {x}, attrs, max, 0, differences});
  };
  const auto yes = Differentiable::kYes;
  with("last", {5, 37}, {1}, yes);
  with("first", {5, 37}, {0}, yes);
  with("all", {3, 5, 7}, {0, 1, 2}, yes);
  with("none", {3, 5}, {}, yes);
  with("scalar", {}, {}, yes);
  with("middle", {3, 5, 7}, {1}, yes);
  with("outer_and_inner", {3, 5, 7}, {0, 2}, yes);
  with("alternating", {2, 3, 4, 5}, {0, 2}, yes);
  with("alternating_inner", {2, 3, 4, 5}, {1, 3}, yes);
  with("extent_one", {3, 1, 7}, {1}, yes);
  with("many_rows", {4001, 33}, {0}, no);
  with("many_elements", {7, 30011}, {0, 1}, no);
  with("long_rows", {3, 40009}, {1}, no);
  with("many_columns", {70, 2500}, {0}, no);

  const auto grad = [&](const char* label, Shape x, Dims dims, Shape y, double low, double high) {
    cases.push_back({"max_grad",
                     label,
                     {{y}, {x, DType::f32, low, high}, {y, DType::f32, low, high}},
                     {{"dims", dims}},
                     max_grad,
                     1e-5,
                     no});
  };
  grad("all_tie", {3, 5, 7}, {1}, {3, 7}, 0.5, 0.5);
  grad("some_tie_in_16_bits", {3, 50, 7}, {1}, {3, 7}, 0.5, 0.51);
  grad("last", {30, 50}, {1}, {30}, 0.5, 0.51);
  grad("outer_and_inner", {3, 5, 7}, {0, 2}, {5}, 0.5, 0.51);
  grad("all", {9, 21}, {0, 1}, {}, 0.5, 0.51);

  cases.push_back({"total_squares", "several", {{{3, 37}}, {{5}}, {{2, 4, 9}}}, {}, sum_squares});
  cases.push_back({"total_squares", "one", {{{}}}, {}, sum_squares});
  cases.push_back({"total_squares", "many", {{{17, 20011}}, {{3}}, {{50021}}}, {}, sum_squares, 1e-6, no});
  cases.push_back({"sum_squares", "odd", {{{3, 37}}}, {}, sum_squares});
  cases.push_back({"sum_squares", "scalar", {{{}}}, {}, sum_squares});
  cases.push_back({"sum_squares", "many", {{{17, 20011}}}, {}, sum_squares, 1e-6, no});
}

void add_softmax(std::vector<OpCase>& cases) {
  for (const Shape& shape : {Shape{37}, Shape{5, 1}, Shape{2, 3, 50}, Shape{9, 100}, Shape{9, 201},
                             Shape{3, 500}, Shape{40, 1031}}) {
    const std::string label = "width" + std::to_string(shape.back());
    const auto differences = shape.elements() < 1000 ? Differentiable::kYes : Differentiable::kNo;
    cases.push_back({"softmax", label, {{shape, DType::f32, -4, 4}}, {}, softmax, 1e-5, differences});
    cases.push_back({"softmax_grad",
                     label,
                     {{shape}, {shape, DType::f32, 0, 1}},
                     {},
                     softmax_grad,
                     1e-5,
                     Differentiable::kNo});
  }
  cases.push_back(
      {"softmax", "far_out", {{{3, 21}, DType::f32, -3e4, 3e4}}, {}, softmax, 1e-5, Differentiable::kNo});
}

}  // namespace
}  // namespace reduce_reference

std::vector<OpCase> reduce_cases() {
  using namespace reduce_reference;
  std::vector<OpCase> cases;
  add_reductions(cases);
  add_softmax(cases);
  return cases;
}

}  // namespace trireme::bench
