// See divisors.h.
#include "trireme/base/divisors.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme {

std::string divisors_near(int64_t value, int64_t wanted) {
  int64_t below = 1, above = value;
  for (int64_t d = 1; d * d <= value; ++d) {
    if (value % d != 0) continue;
    for (int64_t divisor : {d, value / d}) {
      if (divisor <= wanted) below = std::max(below, divisor);
      if (divisor >= wanted) above = std::min(above, divisor);
    }
  }
  return below == above ? fmt::format("{}", below) : fmt::format("{} or {}", below, above);
}

std::string multiples_near(int64_t factor, int64_t wanted) {
  const int64_t below = wanted / factor * factor;
  return below == 0 ? fmt::format("{}", factor) : fmt::format("{} or {}", below, below + factor);
}

}  // namespace trireme
