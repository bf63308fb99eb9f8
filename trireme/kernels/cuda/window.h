// One spatial dim of a convolution or pooling window.
#pragma once

#include <cstdint>
#include <string_view>

#include "trireme/ir/attrs.h"

namespace trireme::cuda {

struct Window {
  int size = 0;    // of the input
  int kernel = 1;  // taps
  int stride = 1, padding = 0, dilation = 1;
  int out = 0;
};

// Dim `dim` (0: rows, 1: columns) of the window that the attributes describe.
inline Window window_dim(const Attrs& attrs, int dim, int64_t size, int64_t kernel) {
  const auto get = [&](std::string_view name, int64_t otherwise) {
    return static_cast<int>(attrs.has(name) ? attrs.integers(name).at(static_cast<size_t>(dim)) : otherwise);
  };
  Window w{static_cast<int>(size), static_cast<int>(kernel), get("stride", 1), get("padding", 0),
           get("dilation", 1)};
  w.out = (w.size + 2 * w.padding - (w.kernel - 1) * w.dilation - 1) / w.stride + 1;
  return w;
}

}  // namespace trireme::cuda
