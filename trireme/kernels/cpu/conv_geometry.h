// The sizes of a two-dimensional convolution, read once from shapes and attributes so that the forward
// op and both gradients agree on them. Tensors are NCHW; w is [filters, channels / groups, kernel…].
#pragma once

#include <cstdint>

#include "trireme/base/error.h"
#include "trireme/base/shape.h"
#include "trireme/ir/attrs.h"

namespace trireme::cpu {

// One spatial dim of a convolution or pooling window.
struct WindowDim {
  int64_t size = 0;    // of the input
  int64_t kernel = 1;  // taps
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;

  int64_t span() const { return (kernel - 1) * dilation + 1; }
  int64_t out() const { return (size + 2 * padding - span()) / stride + 1; }
};

// Dim `dim` (0: rows, 1: columns) of the window that the attributes describe.
inline WindowDim window_dim(const Attrs& attrs, int dim, int64_t size, int64_t kernel) {
  const auto get = [&](std::string_view name, int64_t otherwise) {
    return attrs.has(name) ? attrs.integers(name).at(static_cast<size_t>(dim)) : otherwise;
  };
  return {size, kernel, get("stride", 1), get("padding", 0), get("dilation", 1)};
}

struct ConvGeometry {
  int64_t images = 0, groups = 1;
  int64_t channels = 0, filters = 0;  // of one group
  WindowDim y, x;

  int64_t taps() const { return y.kernel * x.kernel; }
  int64_t in_plane() const { return y.size * x.size; }
  int64_t out_plane() const { return y.out() * x.out(); }
  int64_t weight_elements() const { return groups * filters * channels * taps(); }

  bool is_plain_3x3() const {
    const auto plain = [](const WindowDim& dim) {
      return dim.kernel == 3 && dim.stride == 1 && dim.dilation == 1;
    };
    return plain(y) && plain(x);
  }

  static ConvGeometry of(const Shape& x, const Shape& w, const Attrs& attrs) {
    ConvGeometry g;
    g.images = x[0];
    g.groups = attrs.integer("groups", 1);
    g.channels = w[1];
    g.filters = w[0] / g.groups;
    TRIREME_CHECK(x[1] == g.channels * g.groups);
    g.y = window_dim(attrs, 0, x[2], w[2]);
    g.x = window_dim(attrs, 1, x[3], w[3]);
    return g;
  }
};

}  // namespace trireme::cpu
