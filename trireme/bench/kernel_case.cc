// See kernel_case.h.
#include "trireme/bench/kernel_case.h"

#include "trireme/base/rng.h"

namespace trireme::bench {

std::vector<int64_t> sample_indices(int count, int64_t bound) {
  std::vector<int64_t> indices = {0, bound - 1};  // edges are where blocked kernels go wrong
  for (int i = 2; i < count; ++i)
    indices.push_back(static_cast<int64_t>(uniform_integer({7, stream_id("sample")}, i, bound)));
  return indices;
}

}  // namespace trireme::bench
