// See windows.h.
#include "trireme/onnx/windows.h"

#include <algorithm>

namespace trireme::onnx {

Value as_image(Emitter& e, const Value& x) {
  if (x.shape.rank() == 3) return e.reshape(x, {x.shape[0], x.shape[1], 1, x.shape[2]});
  if (x.shape.rank() != 4)
    throw_error("it works on {}; images of one or two dims are supported", to_string(x.shape));
  return x;
}

Value from_image(Emitter& e, const Value& y, const Value& like) {
  if (like.shape.rank() == 4) return y;
  return e.reshape(y, {y.shape[0], y.shape[1], y.shape[3]});
}

std::vector<int64_t> list(const std::array<int64_t, 2>& pair) {
  return {pair[0], pair[1]};
}

std::array<int64_t, 2> pair_of(Node& node, std::string_view name, int64_t otherwise) {
  const std::vector<int64_t> given = node.integers(name);
  for (const int64_t value : given) {
    if (value < 0 || value > (1 << 20)) throw_error("its {} has a {}", name, value);
  }
  if (given.empty()) return {otherwise, otherwise};
  if (given.size() == 1) return {otherwise, given[0]};
  if (given.size() != 2)
    throw_error("its {} has {} numbers; one for each of two dims expected", name, given.size());
  return {given[0], given[1]};
}

Windows windows_of(Node& node, const Shape& image, std::array<int64_t, 2> kernel) {
  Windows w{.kernel = kernel,
            .stride = pair_of(node, "strides", 1),
            .dilation = pair_of(node, "dilations", 1),
            .low = {0, 0},
            .high = {0, 0}};
  const std::string automatic = node.text("auto_pad", "NOTSET");
  const std::vector<int64_t> pads = node.integers("pads");
  if (!pads.empty() && pads.size() != 2 && pads.size() != 4)
    throw_error("it has {} pads; 2 or 4 expected", pads.size());
  for (int d = 0; d < 2; ++d) {
    const int64_t extent = image[2 + d];
    if (w.stride[d] < 1 || w.dilation[d] < 1 || w.kernel[d] < 1)
      throw_error("its kernel, strides or dilations have a 0");
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      const int64_t outputs = (extent + w.stride[d] - 1) / w.stride[d];
      const int64_t padding = std::max<int64_t>(0, (outputs - 1) * w.stride[d] + w.reach(d) - extent);
      w.low[d] = automatic == "SAME_UPPER" ? padding / 2 : padding - padding / 2;
      w.high[d] = padding - w.low[d];
    } else if (automatic == "NOTSET" && pads.size() == 4) {
      w.low[d] = pads[d];
      w.high[d] = pads[2 + d];
    } else if (automatic == "NOTSET" && pads.size() == 2 && d == 1) {
      w.low[d] = pads[0];
      w.high[d] = pads[1];
    }
    if (w.low[d] < 0 || w.high[d] < 0 || w.low[d] > (1 << 20) || w.high[d] > (1 << 20))
      throw_error("its pads are {} and {}", w.low[d], w.high[d]);
    if (node.integer("ceil_mode", 0) != 0) {
      const int64_t left = (extent + w.low[d] + w.high[d] - w.reach(d)) % w.stride[d];
      // A window that would begin in the padding at the end is left out.
      const int64_t last = extent + w.low[d] + w.high[d] - w.reach(d) - left + w.stride[d];
      if (left > 0 && last < extent + w.low[d]) w.high[d] += w.stride[d] - left;
    }
  }
  return w;
}

}  // namespace trireme::onnx
