// How long codes of variable length can become at most. Messages have one size, known before a step runs:
// what is sent is this long, and both codes are chosen such that it is hardly more than the mean.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace trireme {

// Rice codes of the gaps between `count` ascending indices below `size`: each gap's upper part as so many
// ones and a zero, then its lowest `low_bits` bits. All upper parts together are not more than the indices
// that there are.
constexpr int64_t rice_bytes(int64_t count, int64_t size, int64_t low_bits) {
  return (count * (low_bits + 1) + ((size - count) >> low_bits) + 7) / 8;
}

// Those that make it shortest.
constexpr int64_t rice_low_bits(int64_t count, int64_t size) {
  int64_t best = 0;
  for (int64_t bits = 1; bits <= 30; ++bits) {
    if (rice_bytes(count, size, bits) < rice_bytes(count, size, best)) best = bits;
  }
  return best;
}

// Elias' gamma codes, each with a sign unless it is 0, of the levels of a bucket of `elements`: levels of a
// norm are, unrounded, not more than levels·√elements together, and the rounding of quantise then adds less
// than one. A level of 0 has one bit, a level l at most 1 + 3·l and 2 + 2·log2(1 + l); the latter grows
// slower and slower, so that it is most where all are equal.
inline int64_t elias_bytes(int64_t elements, int64_t levels) {
  const double n = static_cast<double>(elements), sum = static_cast<double>(levels) * std::sqrt(n) + 2;
  const double most = std::min(n + 3 * sum, n * (2 + 2 * std::log2(1 + sum / n)));
  const int64_t highest = 2 + 2 * (std::bit_width(static_cast<uint64_t>(levels) + 1) - 1);
  return (std::min(static_cast<int64_t>(std::ceil(most)), elements * highest) + 7) / 8;
}

}  // namespace trireme
