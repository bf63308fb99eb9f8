// ONNX ops that are products: MatMul, Gemm, convolutions.
#include "trireme/onnx/windows.h"

namespace trireme::onnx {
namespace {

Values matmul(Node& n) {
  Value a = n.in(0), b = n.in(1);
  const bool row = a.shape.rank() == 1, column = b.shape.rank() == 1;
  if (a.shape.rank() == 0 || b.shape.rank() == 0)
    throw_error("it multiplies {} and {}", to_string(a.shape), to_string(b.shape));
  if (row) a = n.e.reshape(a, {1, a.shape[0]});
  if (column) b = n.e.reshape(b, {b.shape[0], 1});
  Value y = n.e.matmul(a, b);
  std::vector<int> gone;
  if (row) gone.push_back(y.shape.rank() - 2);
  if (column) gone.push_back(y.shape.rank() - 1);
  return {n.e.reshape(y, removed(y.shape, gone))};
}

Values gemm(Node& n) {
  const auto flag = [&](std::string_view name) { return static_cast<int64_t>(n.integer(name, 0) != 0); };
  const Value product = n.e.op("matmul", {n.in(0), n.in(1)},
                               {{"transpose_a", flag("transA")}, {"transpose_b", flag("transB")}});
  const Value scaled = n.e.affine(product, n.real("alpha", 1), 0);
  const double beta = n.real("beta", 1);
  if (!n.has(2) || beta == 0) return {scaled};
  return {n.e.add(scaled, beta == 1 ? n.in(2) : n.e.affine(n.in(2), beta, 0))};
}

// A bias for each channel of images.
Value with_bias(Node& n, const Value& y) {
  if (!n.has(2)) return y;
  return n.e.add(y, n.e.reshape(n.in(2), {n.in(2).shape.elements(), 1, 1}));
}

Values conv(Node& n) {
  Value x = as_image(n.e, n.in(0));
  const Value w = as_image(n.e, n.in(1));
  Windows windows = windows_of(n, x.shape, {w.shape[2], w.shape[3]});
  if (!windows.is_even()) {
    for (int d = 0; d < 2; ++d) x = n.e.pad(x, 2 + d, windows.low[d], windows.high[d]);
    windows.low = {0, 0};
  }
  Attrs attrs{
      {"stride", list(windows.stride)}, {"padding", list(windows.low)}, {"dilation", list(windows.dilation)}};
  if (const int64_t groups = n.integer("group", 1); groups != 1) attrs.set("groups", groups);
  return {from_image(n.e, with_bias(n, n.e.op("conv2d", {x, w}, attrs)), n.in(0))};
}

// The gradient of a convolution for its input, of a result that is n's input.
Values conv_transpose(Node& n) {
  const Value x = as_image(n.e, n.in(0)), w = as_image(n.e, n.in(1));
  const std::array<int64_t, 2> kernel{w.shape[2], w.shape[3]}, stride = pair_of(n, "strides", 1),
                                                               dilation = pair_of(n, "dilations", 1);
  const std::array<int64_t, 2> extra = pair_of(n, "output_padding", 0);
  const std::vector<int64_t> pads = n.integers("pads"), wanted = n.integers("output_shape");
  const std::string automatic = n.text("auto_pad", "NOTSET");
  std::array<int64_t, 2> low{0, 0}, high{0, 0}, size{};
  for (int d = 0; d < 2; ++d) {
    const size_t places = n.in(0).shape.rank() - 2, place = d - (2 - places);
    const bool flat = d + places < 2;  // the row that as_image() adds
    const int64_t whole = (x.shape[2 + d] - 1) * stride[d] + dilation[d] * (kernel[d] - 1) + 1;
    if (!flat && automatic == "NOTSET" && pads.size() == 2 * places) {
      low[d] = pads[place];
      high[d] = pads[places + place];
    }
    if (!flat && (!wanted.empty() || automatic.starts_with("SAME"))) {
      const int64_t to = wanted.empty() ? x.shape[2 + d] * stride[d] : wanted[wanted.size() - places + place];
      const int64_t total = whole + extra[d] - to;
      low[d] = automatic == "SAME_LOWER" ? total - total / 2 : total / 2;
      high[d] = total - low[d];
    }
    // The whole result is computed, with what is beyond it, and cut.
    size[d] = whole;
    if (low[d] < 0) throw_error("an output of {} where {} are computed", whole - low[d] - high[d], whole);
  }
  Attrs attrs{{"stride", list(stride)},
              {"padding", std::vector<int64_t>{0, 0}},
              {"dilation", list(dilation)},
              {"size", list(size)}};
  if (const int64_t groups = n.integer("group", 1); groups != 1) attrs.set("groups", groups);
  Value y = n.e.op("conv2d_grad_input", {x, w}, attrs);
  for (int d = 0; d < 2; ++d) y = n.e.pad(y, 2 + d, -low[d], extra[d] - high[d]);
  return {from_image(n.e, with_bias(n, y), n.in(0))};
}

}  // namespace

std::vector<LoweringEntry> product_ops() {
  return {{"MatMul", matmul}, {"Gemm", gemm}, {"Conv", conv}, {"ConvTranspose", conv_transpose}};
}

}  // namespace trireme::onnx
