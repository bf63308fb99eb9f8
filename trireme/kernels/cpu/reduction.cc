// The geometry of reductions; see reduction.h.
#include "trireme/kernels/cpu/reduction.h"

#include <algorithm>

namespace trireme::cpu {
namespace {

constexpr int64_t kWantedTasks = 64;        // parts times outputs: enough for any machine's threads
constexpr int64_t kPartElements = 1 << 14;  // a part has at least so many

}  // namespace

void Reduction::Groups::push(int64_t extent, int64_t stride) {
  extents[size] = extent;
  strides[size] = stride;
  ++size;
  count *= extent;
}

int64_t Reduction::Groups::offset(int64_t index) const {
  int64_t result = 0;
  for (int i = 0; i < size; ++i) {
    result += index % extents[i] * strides[i];
    index /= extents[i];
  }
  return result;
}

Reduction::Reduction(const Shape& shape, std::span<const int64_t> reduced_dims) {
  int64_t stride = 1;
  bool innermost = true;
  for (int dim = shape.rank() - 1; dim >= 0;) {
    const auto is_reduced = [&](int d) { return std::ranges::find(reduced_dims, d) != reduced_dims.end(); };
    const bool reduced = is_reduced(dim);
    int64_t extent = 1;
    for (; dim >= 0 && is_reduced(dim) == reduced; --dim) extent *= shape[dim];
    if (innermost) {
      inner_ = extent;
      inner_is_reduced_ = reduced;
      innermost = false;
    } else {
      (reduced ? reduced_ : kept_).push(extent, stride);
    }
    stride *= extent;
  }
}

int64_t Reduction::parts() const {
  const int64_t bands = inner_is_reduced_ ? 1 : inner_ / kReductionColumns + 1;
  const int64_t enough = kWantedTasks / std::max<int64_t>(1, kept_outer() * bands);
  const int64_t large = reduced_outer() * inner_ / kPartElements;
  const int64_t possible = inner_is_reduced_ ? reduced_elements() : reduced_outer();
  return std::max<int64_t>(1, std::min({enough, large, possible}));
}

}  // namespace trireme::cpu
