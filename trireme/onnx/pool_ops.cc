// ONNX ops that pool images.
#include <algorithm>
#include <limits>

#include "trireme/onnx/windows.h"

namespace trireme::onnx {
namespace {

Value padded(Emitter& e, Value x, const Windows& w, double value) {
  for (int d = 0; d < 2; ++d) x = e.pad(x, 2 + d, w.low[d], w.high[d], value);
  return x;
}

Value pooled(Emitter& e, std::string_view op, const Value& x, const Windows& w,
             const std::vector<int64_t>& padding) {
  return e.op(op, {x}, {{"kernel", list(w.kernel)}, {"stride", list(w.stride)}, {"padding", padding}});
}

// The ops take padding that is even and at most half of the kernel.
bool fits_op(const Windows& w) {
  return w.is_even() && 2 * w.low[0] <= w.kernel[0] && 2 * w.low[1] <= w.kernel[1];
}

Windows pool_windows(Node& n, const Value& x) {
  const std::array<int64_t, 2> kernel = pair_of(n, "kernel_shape", 1);
  return windows_of(n, x.shape, kernel);
}

Values max_pool(Node& n) {
  if (n.gives(1)) throw_error("it gives the places of the largest elements, which is not supported");
  Value x = as_image(n.e, n.in(0));
  const Windows w = pool_windows(n, x);
  if (w.dilation != std::array<int64_t, 2>{1, 1})
    throw_error("its windows are dilated, which is not supported");
  if (fits_op(w)) return {from_image(n.e, pooled(n.e, "max_pool2d", x, w, list(w.low)), n.in(0))};
  x = padded(n.e, x, w, std::numeric_limits<float>::lowest());
  return {from_image(n.e, pooled(n.e, "max_pool2d", x, w, {0, 0}), n.in(0))};
}

// For each output along a dim, how many elements of the image its window has.
std::vector<double> counts(const Windows& w, int d, int64_t extent) {
  std::vector<double> result;
  for (int64_t start = -w.low[d]; start + w.kernel[d] <= extent + w.high[d]; start += w.stride[d])
    result.push_back(
        static_cast<double>(std::min(extent, start + w.kernel[d]) - std::max<int64_t>(0, start)));
  return result;
}

Values average_pool(Node& n) {
  const Value x = as_image(n.e, n.in(0));
  const Windows w = pool_windows(n, x);
  if (w.dilation != std::array<int64_t, 2>{1, 1})
    throw_error("its windows are dilated, which is not supported");
  const bool padding_counts = n.integer("count_include_pad", 0) != 0;
  if (padding_counts && n.integer("ceil_mode", 0) != 0)
    throw_error(
        "count_include_pad with ceil_mode is not supported: padding that rounding up adds does not count");
  if (!padding_counts && fits_op(w))
    return {from_image(n.e, pooled(n.e, "avg_pool2d", x, w, list(w.low)), n.in(0))};
  Value y = pooled(n.e, "avg_pool2d", padded(n.e, x, w, 0), w, {0, 0});
  if (!padding_counts) {  // the mean is over more than is there
    const std::vector<double> rows = counts(w, 0, x.shape[2]), columns = counts(w, 1, x.shape[3]);
    std::vector<double> factors;
    for (const double row : rows) {
      for (const double column : columns)
        factors.push_back(static_cast<double>(w.kernel[0] * w.kernel[1]) / (row * column));
    }
    const Shape shape{static_cast<int64_t>(rows.size()), static_cast<int64_t>(columns.size())};
    y = n.e.multiply(y, Emitter::known(reals(shape, std::move(factors))));
  }
  return {from_image(n.e, y, n.in(0))};
}

}  // namespace

std::vector<LoweringEntry> pool_ops() {
  return {{"MaxPool", max_pool}, {"AveragePool", average_pool}};
}

}  // namespace trireme::onnx
