// Small sums over measurements.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace trireme {

// The value below which the share `quantile` of the values lies; 0 of nothing.
inline double quantile_of(std::vector<double> values, double quantile) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double place = quantile * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(place), above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - std::floor(place)) * (values[above] - values[below]);
}

inline double median_of(std::vector<double> values) {
  return quantile_of(std::move(values), 0.5);
}

}  // namespace trireme
