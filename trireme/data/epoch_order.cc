// Shuffling by epoch; see epoch_order.h. A stored permutation was preferred to a format-preserving
// cipher over indices: 4 bytes a sample is little beside the sample, and every permutation can come up.
#include "trireme/data/epoch_order.h"

#include <limits>
#include <numeric>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/data/data_set.h"

namespace trireme {

void shuffle_epoch(uint64_t seed, int64_t epoch, int64_t size, std::vector<uint32_t>& permutation) {
  permutation.resize(static_cast<size_t>(size));
  std::iota(permutation.begin(), permutation.end(), 0u);
  const RngKey key = epoch_key(seed, "data.shuffle", epoch);
  for (uint64_t i = static_cast<uint64_t>(size); i > 1; --i) {
    std::swap(permutation[i - 1], permutation[uniform_integer(key, i - 1, i)]);
  }
}

EpochOrder::EpochOrder(int64_t size, SampleOrder order, uint64_t seed)
    : size_(size), order_(order), seed_(seed) {
  if (size > std::numeric_limits<uint32_t>::max())
    throw_error("{} samples found, at most 2^32 - 1 can be ordered; use longer windows", size);
}

int64_t EpochOrder::sample(int64_t epoch, int64_t place) {
  TRIREME_CHECK(place >= 0);
  TRIREME_CHECK(place < size_);
  if (order_ == SampleOrder::sequential) return place;
  if (epoch != epoch_) {
    shuffle_epoch(seed_, epoch, size_, permutation_);
    epoch_ = epoch;
  }
  return permutation_[static_cast<size_t>(place)];
}

}  // namespace trireme
