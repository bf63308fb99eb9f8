// Elements whose rounding is looked at together. One bound for a tensor would be that of its largest rows and
// hide what is wrong in small ones; one for each element would rest on the luck of a few samples. So a group
// is a row (the last dim), or as many short rows as make kLeast elements; of a vector, so many elements.
#pragma once

#include <algorithm>
#include <cstdint>

#include "trireme/base/shape.h"

namespace trireme::parity {

inline constexpr int64_t kLeastOfGroup = 16;

// Calls back with begin and end of each group. The last one takes what is left over.
template <typename F>
void for_each_row_group(const Shape& shape, F&& visit) {
  const int64_t elements = shape.elements();
  const int64_t row = shape.rank() < 2 ? 1 : std::max<int64_t>(1, shape.back());
  const int64_t size = row * std::max<int64_t>(1, (kLeastOfGroup + row - 1) / row);
  const int64_t groups = std::max<int64_t>(1, elements / size);
  for (int64_t g = 0; g < groups; ++g) visit(g * size, g + 1 == groups ? elements : (g + 1) * size);
}

}  // namespace trireme::parity
