// Images [n c y x] and [n y x c], and weights of convolutions [o c i j] and [o i j c]: in both, channels move
// behind the pixels.
#pragma once

#include <vector>

#include "trireme/base/shape.h"

namespace trireme {

inline Shape channels_last(const Shape& first) {
  return {first[0], first[2], first[3], first[1]};
}
inline Shape channels_first(const Shape& last) {
  return {last[0], last[3], last[1], last[2]};
}

// `perm` of the transpose from one to the other.
inline std::vector<int64_t> perm_to_channels_last() {
  return {0, 2, 3, 1};
}
inline std::vector<int64_t> perm_to_channels_first() {
  return {0, 3, 1, 2};
}

}  // namespace trireme
