// How often something is done in vain before it is timed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace trireme::comm {

// Once: first uses make recipes and touch memory. A long vector more often: the caches go on changing for a
// dozen passes, and each kind of pass leaves them in a state of its own. What takes long anyway does so for
// other reasons.
inline int64_t passes_in_vain(size_t vector_bytes, double seconds_of_one) {
  constexpr size_t kLongVector = 4 << 20;
  constexpr double kEnoughSeconds = 0.3;
  if (vector_bytes < kLongVector) return 1;
  return static_cast<int64_t>(std::clamp(kEnoughSeconds / seconds_of_one, 2.0, 32.0));
}

}  // namespace trireme::comm
