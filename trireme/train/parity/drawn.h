// Who the op drawn draws, written out.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/base/rng.h"

namespace trireme::parity {

// Of each number below `of`, whether it is one of the `count` that are drawn in this round.
inline std::vector<bool> drawn_in(uint64_t seed, uint64_t stream, uint64_t round, int64_t count, int64_t of) {
  const RngKey key{seed, stream + round * 0x9E3779B97F4A7C15u};
  std::vector<bool> result;
  for (int64_t i = 0; i < of; ++i) {
    const auto below =
        static_cast<int64_t>(uniform_integer(key, static_cast<uint64_t>(i), static_cast<uint64_t>(of - i)));
    result.push_back(below < count);
    count -= result.back() ? 1 : 0;
  }
  return result;
}

}  // namespace trireme::parity
