// Kernels that go over images, as ONNX describes them: one or two dims of places, with padding that need not
// be even.
#pragma once

#include <array>

#include "trireme/onnx/node.h"

namespace trireme::onnx {

struct Windows {
  std::array<int64_t, 2> kernel, stride, dilation, low, high;  // rows, columns; low and high: padding
  int64_t reach(int dim) const { return dilation[dim] * (kernel[dim] - 1) + 1; }
  bool is_even() const { return low == high; }
};

// [n, c, x] as [n, c, 1, x], which is what the ops work on; an Error for images of three dims and more.
Value as_image(Emitter& e, const Value& x);
// Back to as many dims as `like` has.
Value from_image(Emitter& e, const Value& y, const Value& like);

// From strides, dilations, pads, auto_pad and ceil_mode, for an image [n, c, y, x]. With ceil_mode, padding
// at the end grows by what the last windows need.
Windows windows_of(Node& node, const Shape& image, std::array<int64_t, 2> kernel);
// A list of the node as two numbers; `otherwise` where it is not there.
std::array<int64_t, 2> pair_of(Node& node, std::string_view name, int64_t otherwise);
std::vector<int64_t> list(const std::array<int64_t, 2>& pair);

}  // namespace trireme::onnx
