// The order of the samples of an epoch: a permutation that is a function of (seed, epoch) alone.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme {

enum class SampleOrder { shuffled, sequential };

// The Fisher-Yates permutation of [0, size), drawn from stream (seed, "data.shuffle", epoch). Reuses the
// memory of `permutation`.
void shuffle_epoch(uint64_t seed, int64_t epoch, int64_t size, std::vector<uint32_t>& permutation);

class EpochOrder {
 public:
  EpochOrder(int64_t size, SampleOrder order, uint64_t seed);  // throws Error when size does not fit 32 bits

  // The number of the sample at place `place` of `epoch`. Keeps one epoch's permutation, 4 bytes a sample.
  int64_t sample(int64_t epoch, int64_t place);

 private:
  int64_t size_;
  SampleOrder order_;
  uint64_t seed_;
  int64_t epoch_ = -1;  // of permutation_
  std::vector<uint32_t> permutation_;
};

}  // namespace trireme
