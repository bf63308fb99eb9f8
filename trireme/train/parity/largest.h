// Which elements the op top_k keeps, written out.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace trireme::parity {

// Ascending. With `sampled`, those that are as large as what seems the k-th by every so many-th element,
// where that are k at least; else all of these, and the first others. Limits are `raised` by a share of
// themselves, and then all that reach the size of the k-th are kept, more or fewer than k: where others
// nearly equal a limit, rounding decides which of them are kept.
inline std::vector<size_t> largest_of(std::span<const double> x, size_t k, double sampled = 0,
                                      double raised = 0) {
  std::vector<size_t> order(x.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return std::abs(x[a]) > std::abs(x[b]); });
  bool by_size = k > 0 && k <= x.size();
  if (sampled > 0 && k > 0) {
    std::vector<double> looked;
    for (size_t i = 0; i < x.size(); i += std::max<size_t>(1, static_cast<size_t>(std::llround(1 / sampled))))
      looked.push_back(std::abs(x[i]));
    std::ranges::sort(looked, std::greater<>());
    const int64_t wanted =
        std::llround(static_cast<double>(k * looked.size()) / static_cast<double>(x.size()));
    const double least = looked[std::clamp<int64_t>(wanted, 1, std::ssize(looked)) - 1] * (1 + raised);
    const auto few = std::ranges::find_if(order, [&](size_t i) { return std::abs(x[i]) < least; });
    if (few - order.begin() < static_cast<int64_t>(k)) {
      std::sort(few, order.end());
      by_size = false;
    }
  }
  if (by_size && raised != 0) {
    const double least = std::abs(x[order[k - 1]]) * (1 + raised);
    const auto smaller = std::ranges::find_if(order, [&](size_t i) { return std::abs(x[i]) < least; });
    k = static_cast<size_t>(smaller - order.begin());
  }
  order.resize(k);
  std::ranges::sort(order);
  return order;
}

}  // namespace trireme::parity
