// The convolutions of ResNet-20 on images of 32x32: one per stage, and the two that halve the image.
#include <fmt/format.h>

#include <cmath>

#include "trireme/bench/kernel_case.h"

namespace trireme::bench {
namespace {

// x[n c y x], w[o c i j], y[n o y' x'] with one stride and padding in both directions.
struct Geometry {
  Shape x, w, y;
  int64_t stride, padding;

  // Position in the input of an output position and a kernel position; false where that is padding.
  bool source(int64_t out_y, int64_t out_x, int64_t i, int64_t j, int64_t& in_y, int64_t& in_x) const {
    in_y = out_y * stride - padding + i;
    in_x = out_x * stride - padding + j;
    return in_y >= 0 && in_y < x[2] && in_x >= 0 && in_x < x[3];
  }
};

Geometry geometry(const KernelRun& run, const Shape& x, const Shape& w, const Shape& y) {
  return {x, w, y, run.attrs().integers("stride")[0], run.attrs().integers("padding")[0]};
}

int64_t offset(const Shape& shape, int64_t a, int64_t b, int64_t c, int64_t d) {
  return ((a * shape[1] + b) * shape[2] + c) * shape[3] + d;
}

void add_product(ExpectedElement& element, float a, float b) {
  const double term = static_cast<double>(a) * b;
  element.value += term;
  element.magnitude += std::abs(term);
}

std::vector<ExpectedElement> expected_forward(const KernelRun& run) {
  const Geometry g = geometry(run, run.shape(0), run.shape(1), run.outputs()[0].shape);
  std::vector<ExpectedElement> expected;
  for (int64_t index : sample_indices(100, g.y.elements())) {
    const int64_t x = index % g.y[3], y = index / g.y[3] % g.y[2], o = index / (g.y[2] * g.y[3]) % g.y[1],
                  n = index / g.y.elements(1, 4);
    ExpectedElement element{0, index, 0, 0};
    for (int64_t tap = 0; tap < g.w.elements(1, 4); ++tap) {
      const int64_t c = tap / (g.w[2] * g.w[3]), i = tap / g.w[3] % g.w[2], j = tap % g.w[3];
      int64_t in_y, in_x;
      if (g.source(y, x, i, j, in_y, in_x))
        add_product(element, run.in(0)[offset(g.x, n, c, in_y, in_x)], run.in(1)[offset(g.w, o, c, i, j)]);
    }
    expected.push_back(element);
  }
  return expected;
}

std::vector<ExpectedElement> expected_grad_input(const KernelRun& run) {
  const Geometry g = geometry(run, run.outputs()[0].shape, run.shape(1), run.shape(0));
  std::vector<ExpectedElement> expected;
  for (int64_t index : sample_indices(100, g.x.elements())) {
    const int64_t x = index % g.x[3], y = index / g.x[3] % g.x[2], c = index / (g.x[2] * g.x[3]) % g.x[1],
                  n = index / g.x.elements(1, 4);
    ExpectedElement element{0, index, 0, 0};
    for (int64_t i = 0; i < g.w[2]; ++i) {
      for (int64_t j = 0; j < g.w[3]; ++j) {
        const int64_t top = y + g.padding - i, left = x + g.padding - j;
        if (top < 0 || left < 0 || top % g.stride != 0 || left % g.stride != 0) continue;
        const int64_t out_y = top / g.stride, out_x = left / g.stride;
        if (out_y >= g.y[2] || out_x >= g.y[3]) continue;
        for (int64_t o = 0; o < g.y[1]; ++o)
          add_product(element, run.in(0)[offset(g.y, n, o, out_y, out_x)],
                      run.in(1)[offset(g.w, o, c, i, j)]);
      }
    }
    expected.push_back(element);
  }
  return expected;
}

std::vector<ExpectedElement> expected_grad_weight(const KernelRun& run) {
  const Geometry g = geometry(run, run.shape(1), run.outputs()[0].shape, run.shape(0));
  std::vector<ExpectedElement> expected;
  for (int64_t index : sample_indices(20, g.w.elements())) {
    const int64_t j = index % g.w[3], i = index / g.w[3] % g.w[2], c = index / (g.w[2] * g.w[3]) % g.w[1],
                  o = index / g.w.elements(1, 4);
    ExpectedElement element{0, index, 0, 0};
    for (int64_t place = 0; place < g.y[0] * g.y[2] * g.y[3]; ++place) {
      const int64_t n = place / (g.y[2] * g.y[3]), y = place / g.y[3] % g.y[2], x = place % g.y[3];
      int64_t in_y, in_x;
      if (g.source(y, x, i, j, in_y, in_x))
        add_product(element, run.in(0)[offset(g.y, n, o, y, x)], run.in(1)[offset(g.x, n, c, in_y, in_x)]);
    }
    expected.push_back(element);
  }
  return expected;
}

}  // namespace

std::vector<KernelCase> conv_kernel_cases(const ModelSizes& sizes) {
  constexpr int64_t kKernel = 3;
  struct Layer {
    int64_t channels, filters, extent, stride;
  };
  std::vector<KernelCase> cases;
  for (const Layer& layer : {Layer{3, 16, 32, 1}, Layer{16, 16, 32, 1}, Layer{16, 32, 32, 2},
                             Layer{32, 32, 16, 1}, Layer{32, 64, 16, 2}, Layer{64, 64, 8, 1}}) {
    const int64_t half = layer.extent / layer.stride;
    const TensorType x{DType::f32, {sizes.images, layer.channels, layer.extent, layer.extent}},
        w{DType::f32, {layer.filters, layer.channels, kKernel, kKernel}},
        y{DType::f32, {sizes.images, layer.filters, half, half}};
    const auto pair = [](int64_t value) { return std::vector<int64_t>{value, value}; };
    const Attrs attrs{{"stride", pair(layer.stride)}, {"padding", pair(1)}, {"dilation", pair(1)}};
    Attrs input_attrs = attrs, weight_attrs = attrs;
    input_attrs.set("size", pair(layer.extent));
    weight_attrs.set("kernel", pair(kKernel));
    const std::string shape =
        fmt::format("{}x{}x{}x{} to {}, 3x3{}", sizes.images, layer.channels, layer.extent, layer.extent,
                    layer.filters, layer.stride == 2 ? ", stride 2" : "");
    cases.push_back({"conv2d", shape, {x, w}, attrs, expected_forward});
    // The first layer's input is the data, which nobody asks a gradient of.
    if (layer.channels != 3)
      cases.push_back({"conv2d_grad_input", shape, {y, w}, input_attrs, expected_grad_input});
    cases.push_back({"conv2d_grad_weight", shape, {y, x}, weight_attrs, expected_grad_weight});
  }
  return cases;
}

}  // namespace trireme::bench
