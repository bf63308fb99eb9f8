// Images [n c y x] and [n y x c], weights of convolutions [o c i j] and [o i j c], and what all images of a
// batch share, [c y x] and [y x c]: channels move behind the pixels.
#pragma once

#include <vector>

#include "trireme/base/shape.h"

namespace trireme {

inline Shape channels_last(const Shape& first) {
  if (first.rank() == 3) return {first[1], first[2], first[0]};
  return {first[0], first[2], first[3], first[1]};
}
inline Shape channels_first(const Shape& last) {
  return {last[0], last[3], last[1], last[2]};
}

// `perm` of the transpose from one to the other, of tensors with so many dims.
inline std::vector<int64_t> perm_to_channels_last(int rank = 4) {
  return rank == 3 ? std::vector<int64_t>{1, 2, 0} : std::vector<int64_t>{0, 2, 3, 1};
}
inline std::vector<int64_t> perm_to_channels_first(int rank = 4) {
  return rank == 3 ? std::vector<int64_t>{2, 0, 1} : std::vector<int64_t>{0, 3, 1, 2};
}

}  // namespace trireme
