// The windows of a pooling op: which elements of a plane each output looks at, padding left out. A plane
// is one channel of one image.
#pragma once

#include <algorithm>
#include <cstdint>

#include "trireme/base/thread_pool.h"
#include "trireme/kernels/cpu/conv_geometry.h"

namespace trireme::cpu {

struct Span {
  int64_t first = 0, last = 0;  // last is one past the end; empty when the window lies in padding only
  int64_t count() const { return last - first; }
};

struct PoolWindow {
  int64_t planes;
  WindowDim y, x;

  PoolWindow(const Shape& input, const Attrs& attrs)
      : planes(input[0] * input[1]),
        y(window_dim(attrs, 0, input[2], attrs.integers("kernel").at(0))),
        x(window_dim(attrs, 1, input[3], attrs.integers("kernel").at(1))) {}

  int64_t in_plane() const { return y.size * x.size; }
  int64_t out_plane() const { return y.out() * x.out(); }

  // Calls visit(rows, columns) for each output of a plane, in order.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (int64_t i = 0; i < y.out(); ++i) {
      const Span rows = window_of(y, i);
      for (int64_t j = 0; j < x.out(); ++j) visit(rows, window_of(x, j));
    }
  }

  // The elements that one output looks at.
  static Span window_of(const WindowDim& dim, int64_t out) {
    const int64_t first = out * dim.stride - dim.padding;
    const int64_t from = std::clamp<int64_t>(first, 0, dim.size);
    return {from, std::clamp<int64_t>(first + dim.kernel, from, dim.size)};
  }
  // The outputs whose windows have a real element at place `tap`; for output j it is element
  // j · stride − padding + tap.
  static Span outputs_at(const WindowDim& dim, int64_t tap) {
    const auto up = [&](int64_t element) { return (element + dim.stride - 1) / dim.stride; };
    const int64_t from = std::min(up(std::max<int64_t>(0, dim.padding - tap)), dim.out());
    return {from, std::clamp(up(std::max<int64_t>(0, dim.size + dim.padding - tap)), from, dim.out())};
  }
};

// Calls body(plane) for each plane, in parallel.
template <typename Body>
void for_each_plane(ThreadPool& pool, const PoolWindow& window, const Body& body) {
  constexpr int64_t kElementsPerTask = 1 << 14;
  const int64_t grain = std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, window.in_plane()));
  pool.parallel_for(window.planes, grain, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) body(plane);
  });
}

}  // namespace trireme::cpu
