// The median of times, each of which was measured: nothing between two of them.
#pragma once

#include <algorithm>
#include <span>

namespace trireme::comm {

// Of an even number the greater. Reorders the values, of which there is at least one.
inline double middle_of(std::span<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace trireme::comm
