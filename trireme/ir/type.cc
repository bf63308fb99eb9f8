// The limit on sizes; see type.h.
#include "trireme/ir/type.h"

#include <algorithm>

namespace trireme {

bool has_possible_size(const Shape& shape) {
  int64_t product = 1;
  for (int64_t extent : shape) {
    if (__builtin_mul_overflow(product, std::max<int64_t>(extent, 1), &product) || product > kMaxElements)
      return false;
  }
  return true;
}

}  // namespace trireme
