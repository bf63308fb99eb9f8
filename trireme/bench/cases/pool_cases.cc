// Cases of max_pool2d, avg_pool2d and their gradients.
#include <algorithm>
#include <limits>
#include <string>

#include "trireme/bench/cases/reference.h"

namespace trireme::bench {
namespace pool_reference {
namespace {

struct Geometry {
  std::string label;
  Shape x;
  std::vector<int64_t> kernel, stride, padding{0, 0};

  int64_t out(int d) const { return (x[2 + d] + 2 * padding[d] - kernel[d]) / stride[d] + 1; }
  Shape y() const { return {x[0], x[1], out(0), out(1)}; }
  Attrs attrs() const { return {{"kernel", kernel}, {"stride", stride}, {"padding", padding}}; }
};

Geometry geometry_of(const Shape& x, const Attrs& attrs) {
  return {"", x, attrs.integers("kernel"), attrs.integers("stride"), attrs.integers("padding")};
}

// The indices in x of the elements under each window; visit(index of y, indices of x).
template <typename Visit>
void for_each_window(const Geometry& g, const Visit& visit) {
  const Shape y = g.y();
  for (int64_t at = 0; at < y.elements(); ++at) {
    const int64_t plane = at / (y[2] * y[3]);
    std::vector<int64_t> under;
    for (int64_t i = 0; i < g.kernel[0]; ++i) {
      for (int64_t j = 0; j < g.kernel[1]; ++j) {
        const int64_t row = at / y[3] % y[2] * g.stride[0] - g.padding[0] + i;
        const int64_t column = at % y[3] * g.stride[1] - g.padding[1] + j;
        if (row < 0 || row >= g.x[2] || column < 0 || column >= g.x[3]) continue;
        under.push_back((plane * g.x[2] + row) * g.x[3] + column);
      }
    }
    visit(at, under);
  }
}

RefTensors max_pool2d(const RefTensors& in, const Attrs& attrs) {
  const Geometry g = geometry_of(in[0].shape, attrs);
  RefTensor y = RefTensor::zeros(g.y(), in[0].dtype);
  for_each_window(g, [&](int64_t at, const std::vector<int64_t>& under) {
    double best = -std::numeric_limits<double>::infinity();
    for (int64_t i : under) best = std::max(best, in[0].values[i]);
    y.values[at] = best;
  });
  return {y};
}

// y is an input of its own here, so a window may hold its "maximum" never, once or several times.
RefTensors max_pool2d_grad(const RefTensors& in, const Attrs& attrs) {
  const RefTensor &dy = in[0], &x = in[1], &y = in[2];
  RefTensor dx = RefTensor::zeros(x.shape, x.dtype);
  for_each_window(geometry_of(x.shape, attrs), [&](int64_t at, const std::vector<int64_t>& under) {
    for (int64_t i : under) {
      if (x.values[i] != y.values[at]) continue;
      dx.values[i] += dy.values[at];
      return;
    }
  });
  return {dx};
}

RefTensors avg_pool2d(const RefTensors& in, const Attrs& attrs) {
  const Geometry g = geometry_of(in[0].shape, attrs);
  RefTensor y = RefTensor::zeros(g.y(), in[0].dtype);
  for_each_window(g, [&](int64_t at, const std::vector<int64_t>& under) {
    for (int64_t i : under) y.values[at] += in[0].values[i] / under.size();
  });
  return {y};
}

RefTensors avg_pool2d_grad(const RefTensors& in, const Attrs& attrs) {
  const RefTensor& dy = in[0];
  const auto& size = attrs.integers("size");
  RefTensor dx = RefTensor::zeros({dy.shape[0], dy.shape[1], size[0], size[1]}, dy.dtype);
  for_each_window(geometry_of(dx.shape, attrs), [&](int64_t at, const std::vector<int64_t>& under) {
    for (int64_t i : under) dx.values[i] += dy.values[at] / under.size();
  });
  return {dx};
}

void add_cases(const Geometry& g, std::vector<OpCase>& cases) {
  const CaseInput x{g.x}, y{g.y()};
  Attrs sized = g.attrs();
  sized.set("size", std::vector<int64_t>{g.x[2], g.x[3]});
  const auto add = [&](std::string op, std::vector<CaseInput> inputs, const Attrs& attrs, auto reference,
                       Differentiable differentiable) {
    cases.push_back({.op = std::move(op),
                     .label = g.label,
                     .inputs = std::move(inputs),
                     .attrs = attrs,
                     .reference = reference,
                     .finite_differences = differentiable});
  };
  add("max_pool2d", {x}, g.attrs(), max_pool2d, Differentiable::kYes);
  // So close to zero that f32 has only nine values there, and the formats of 16 bits one: x equals y often.
  const CaseInput few_x{g.x, DType::f32, -0x1p-147, 0x1p-147}, few_y{g.y(), DType::f32, -0x1p-147, 0x1p-147};
  add("max_pool2d_grad", {y, few_x, few_y}, g.attrs(), max_pool2d_grad, Differentiable::kNo);
  const auto last = [](CaseInput input) {
    input.shape = channels_last(input.shape);
    return input;
  };
  add("max_pool2d_nhwc", {last(x)}, g.attrs(), by_channels_first<max_pool2d>, Differentiable::kNo);
  add("max_pool2d_nhwc_grad", {last(y), last(few_x), last(few_y)}, g.attrs(),
      by_channels_first<max_pool2d_grad>, Differentiable::kNo);
  add("avg_pool2d", {x}, g.attrs(), avg_pool2d, Differentiable::kYes);
  add("avg_pool2d_grad", {y}, sized, avg_pool2d_grad, Differentiable::kYes);
}

}  // namespace
}  // namespace pool_reference

std::vector<OpCase> pool_cases() {
  using namespace pool_reference;
  std::vector<OpCase> cases;
  for (const Geometry& g : std::vector<Geometry>{
           {"2x2", {2, 3, 6, 8}, {2, 2}, {2, 2}},
           {"odd_size", {1, 2, 7, 5}, {2, 2}, {2, 2}},
           {"3x3_stride_2_padded", {2, 3, 9, 8}, {3, 3}, {2, 2}, {1, 1}},
           {"overlapping", {1, 4, 5, 6}, {3, 2}, {1, 1}, {1, 0}},
           {"gaps", {2, 2, 8, 9}, {2, 1}, {3, 2}},
           {"whole_image", {3, 5, 8, 8}, {8, 8}, {1, 1}},
           {"one_pixel", {2, 1, 1, 1}, {1, 1}, {1, 1}},
           {"whole_packs", {2, 16, 9, 8}, {3, 3}, {2, 2}, {1, 1}},
       }) {
    add_cases(g, cases);
  }
  return cases;
}

}  // namespace trireme::bench
