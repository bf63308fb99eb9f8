// The numbers of a convolution.
#pragma once

#include "trireme/base/shape.h"
#include "trireme/kernels/cuda/window.h"

namespace trireme::cuda {

struct Conv {
  int64_t images, groups, channels, filters;  // channels and filters: of one group
  Window y, x;

  Conv(const Shape& image, const Shape& weight, const Attrs& attrs)
      : images(image[0]),
        groups(attrs.integer("groups", 1)),
        channels(weight[1]),
        filters(weight[0] / groups),
        y(window_dim(attrs, 0, image[2], weight[2])),
        x(window_dim(attrs, 1, image[3], weight[3])) {}

  __host__ __device__ int64_t in_plane() const { return int64_t{y.size} * x.size; }
  __host__ __device__ int64_t out_plane() const { return int64_t{y.out} * x.out; }
  __host__ __device__ int64_t taps() const { return int64_t{y.kernel} * x.kernel; }
  int64_t patch() const { return channels * taps(); }
  // Where an image is its own matrix of columns.
  bool is_pointwise() const {
    const auto plain = [](const Window& w) { return w.kernel == 1 && w.stride == 1 && w.padding == 0; };
    return plain(y) && plain(x);
  }
};

}  // namespace trireme::cuda
