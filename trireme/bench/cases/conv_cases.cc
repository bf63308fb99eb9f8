// Cases of conv2d and its two gradients. Each geometry gives one case of each of the three ops.
#include <string>

#include "trireme/bench/cases/reference.h"

namespace trireme::bench {
namespace conv_reference {
namespace {

struct Pair {
  int64_t y = 1, x = 1;
};

struct Geometry {
  std::string label;
  int64_t images, channels, filters;
  Pair size, kernel, stride{1, 1}, padding{0, 0}, dilation{1, 1};
  int64_t groups = 1;

  Pair out() const {
    const auto along = [](int64_t n, int64_t k, int64_t s, int64_t p, int64_t d) {
      return (n + 2 * p - d * (k - 1) - 1) / s + 1;
    };
    return {along(size.y, kernel.y, stride.y, padding.y, dilation.y),
            along(size.x, kernel.x, stride.x, padding.x, dilation.x)};
  }
  Attrs attrs() const {
    return {{"stride", std::vector<int64_t>{stride.y, stride.x}},
            {"padding", std::vector<int64_t>{padding.y, padding.x}},
            {"dilation", std::vector<int64_t>{dilation.y, dilation.x}},
            {"groups", groups}};
  }
};

// Calls visit(index in x, index in w, index in y) for every product in a convolution of these shapes,
// padding left out.
template <typename Visit>
void for_each_product(const Shape& x, const Shape& w, const Shape& y, const Attrs& attrs,
                      const Visit& visit) {
  const std::vector<int64_t>&stride = attrs.integers("stride"), &padding = attrs.integers("padding"),
        &dilation = attrs.integers("dilation");
  const int64_t group_filters = w[0] / attrs.integer("groups", 1), channels = w[1], rows = x[2],
                columns = x[3];
  const int64_t kernel_rows = w[2], kernel_columns = w[3], out_columns = y[3];
  int64_t y_index = -1;
  for (int64_t n = 0; n < y[0]; ++n) {
    for (int64_t o = 0; o < y[1]; ++o) {
      for (int64_t p = 0; p < y[2] * y[3]; ++p) {
        ++y_index;
        for (int64_t c = 0; c < channels; ++c) {
          for (int64_t i = 0; i < kernel_rows; ++i) {
            const int64_t iy = p / out_columns * stride[0] - padding[0] + i * dilation[0];
            for (int64_t j = 0; j < kernel_columns; ++j) {
              const int64_t ix = p % out_columns * stride[1] - padding[1] + j * dilation[1];
              if (iy < 0 || iy >= rows || ix < 0 || ix >= columns) continue;
              const int64_t x_channel = o / group_filters * channels + c;
              visit(((n * x[1] + x_channel) * rows + iy) * columns + ix,
                    ((o * channels + c) * kernel_rows + i) * kernel_columns + j, y_index);
            }
          }
        }
      }
    }
  }
}

RefTensors conv2d(const RefTensors& in, const Attrs& attrs) {
  const RefTensor &x = in[0], &w = in[1];
  const auto out = [&](int d) {
    const int64_t padding = attrs.integers("padding")[d], dilation = attrs.integers("dilation")[d];
    return (x.shape[2 + d] + 2 * padding - dilation * (w.shape[2 + d] - 1) - 1) /
               attrs.integers("stride")[d] +
           1;
  };
  RefTensor y = RefTensor::zeros({x.shape[0], w.shape[0], out(0), out(1)}, x.dtype);
  for_each_product(x.shape, w.shape, y.shape, attrs,
                   [&](int64_t xi, int64_t wi, int64_t yi) { y.values[yi] += x.values[xi] * w.values[wi]; });
  return {y};
}

RefTensors conv2d_grad_input(const RefTensors& in, const Attrs& attrs) {
  const RefTensor &dy = in[0], &w = in[1];
  const auto& size = attrs.integers("size");
  RefTensor dx =
      RefTensor::zeros({dy.shape[0], w.shape[1] * attrs.integer("groups", 1), size[0], size[1]}, dy.dtype);
  for_each_product(dx.shape, w.shape, dy.shape, attrs, [&](int64_t xi, int64_t wi, int64_t yi) {
    dx.values[xi] += dy.values[yi] * w.values[wi];
  });
  return {dx};
}

RefTensors conv2d_grad_weight(const RefTensors& in, const Attrs& attrs) {
  const RefTensor &dy = in[0], &x = in[1];
  const auto& kernel = attrs.integers("kernel");
  RefTensor dw = RefTensor::zeros(
      {dy.shape[1], x.shape[1] / attrs.integer("groups", 1), kernel[0], kernel[1]}, dy.dtype);
  for_each_product(x.shape, dw.shape, dy.shape, attrs, [&](int64_t xi, int64_t wi, int64_t yi) {
    dw.values[wi] += dy.values[yi] * x.values[xi];
  });
  return {dw};
}

void add_cases(const Geometry& g, std::vector<OpCase>& cases) {
  const Pair out = g.out();
  const CaseInput x{Shape{g.images, g.channels, g.size.y, g.size.x}};
  const CaseInput w{Shape{g.filters, g.channels / g.groups, g.kernel.y, g.kernel.x}};
  const CaseInput dy{Shape{g.images, g.filters, out.y, out.x}};
  Attrs grad_input = g.attrs(), grad_weight = g.attrs();
  grad_input.set("size", std::vector<int64_t>{g.size.y, g.size.x});
  grad_weight.set("kernel", std::vector<int64_t>{g.kernel.y, g.kernel.x});
  const auto add = [&](std::string op, std::vector<CaseInput> inputs, const Attrs& attrs, auto reference) {
    cases.push_back({.op = std::move(op),
                     .label = g.label,
                     .inputs = std::move(inputs),
                     .attrs = attrs,
                     .reference = reference});
  };
  add("conv2d", {x, w}, g.attrs(), conv2d);
  add("conv2d_grad_input", {dy, w}, grad_input, conv2d_grad_input);
  add("conv2d_grad_weight", {dy, x}, grad_weight, conv2d_grad_weight);
  if (g.groups > 1) return;
  const auto last = [](CaseInput input) {
    input.shape = channels_last(input.shape);
    return input;
  };
  add("conv2d_nhwc", {last(x), last(w)}, g.attrs(), by_channels_first<conv2d>);
  add("conv2d_nhwc_grad_input", {last(dy), last(w)}, grad_input, by_channels_first<conv2d_grad_input>);
  add("conv2d_nhwc_grad_weight", {last(dy), last(x)}, grad_weight, by_channels_first<conv2d_grad_weight>);
}

}  // namespace
}  // namespace conv_reference

std::vector<OpCase> conv_cases() {
  using namespace conv_reference;
  const Pair three{3, 3}, one{1, 1}, two{2, 2}, none{0, 0};
  std::vector<OpCase> cases;
  for (const Geometry& g : std::vector<Geometry>{
           // The attributes one by one, on odd sizes.
           {"one_pixel", 1, 1, 1, one, one},
           {"valid_3x3", 2, 3, 5, {7, 6}, three},
           {"same_3x3", 2, 4, 7, {5, 9}, three, one, one},
           {"wide_padding", 1, 2, 3, {4, 5}, three, one, {3, 2}},
           {"stride_2", 2, 3, 4, {9, 11}, three, two, one},
           {"stride_2_even", 1, 2, 3, {8, 6}, three, two, none},
           {"stride_3", 1, 3, 2, {10, 13}, three, {3, 3}, one},
           {"stride_2_by_1", 1, 2, 3, {9, 7}, three, {2, 1}, one},
           {"stride_over_kernel", 2, 3, 4, {7, 8}, {1, 2}, {3, 3}},
           {"unread_border", 1, 2, 2, {8, 8}, two, {3, 3}},
           {"dilation_2", 1, 3, 4, {9, 10}, three, one, two, two},
           {"dilation_3_stride_2", 1, 2, 3, {13, 11}, three, two, {1, 2}, {3, 2}},
           {"dilation_2_stride_2", 1, 2, 3, {11, 12}, three, two, one, two},
           {"kernel_1x5", 1, 3, 4, {6, 9}, {1, 5}, one, {0, 2}},
           {"kernel_4x2", 2, 2, 3, {7, 5}, {4, 2}, {1, 2}, {1, 1}},
           {"whole_image_kernel", 2, 3, 4, {5, 4}, {5, 4}},
           {"groups_2", 2, 4, 6, {6, 7}, three, one, one, one, 2},
           {"groups_3_stride_2", 1, 6, 3, {7, 9}, three, two, one, one, 3},
           {"depthwise", 2, 5, 5, {6, 8}, three, one, one, one, 5},
           {"depthwise_twice", 1, 4, 8, {5, 16}, three, two, one, one, 4},
           {"pointwise", 2, 19, 13, {5, 7}, one},
           {"pointwise_whole_vectors", 2, 18, 9, {4, 8}, one},
           {"pointwise_stride_2", 2, 5, 8, {7, 6}, one, two},
           {"seven_by_seven_stride_2", 1, 3, 8, {22, 20}, {7, 7}, two, {3, 3}},
           {"many_channels", 1, 70, 3, {4, 4}, three, one, one},
           {"rows_of_32_no_padding", 1, 3, 7, {6, 34}, three},
           {"rows_of_16_stride_y", 1, 3, 5, {9, 16}, three, {2, 1}, one},
           {"four_wide", 2, 3, 5, {6, 4}, three, one, one},
           {"two_wide", 2, 3, 5, {3, 2}, {3, 5}, one, {1, 2}},
           {"many_images", 19, 2, 3, {4, 5}, three, one, one},
           // Enough channels for Winograd's transform, cut into tasks in different ways.
           {"winograd_no_padding", 1, 24, 25, {10, 18}, three},
           {"winograd_wide_padding", 1, 25, 24, {6, 14}, three, one, two},
           {"winograd_bands", 1, 24, 24, {24, 44}, three, one, one},
           {"winograd_groups", 2, 48, 50, {8, 8}, three, one, one, one, 2},
           {"winograd_many_images", 6, 24, 24, {8, 8}, three, one, one},
           // The shapes of ResNet-20, which have paths of their own.
           {"resnet20_stem", 2, 3, 16, {32, 32}, three, one, one},
           {"resnet20_16", 1, 16, 16, {32, 32}, three, one, one},
           {"resnet20_16_to_32", 1, 16, 32, {32, 32}, three, two, one},
           {"resnet20_32", 1, 32, 32, {16, 16}, three, one, one},
           {"resnet20_32_to_64", 2, 32, 64, {16, 16}, three, two, one},
           {"resnet20_64", 3, 64, 64, {8, 8}, three, one, one},
       }) {
    add_cases(g, cases);
  }
  return cases;
}

}  // namespace trireme::bench
