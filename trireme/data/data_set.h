// Samples by number. A DataSet is immutable and knows nothing of order, batches or ranks: that is the
// Loader's part. Everything random in a sample (crop, flip, window offset) is a function of
// (seed, epoch, index), so any rank can make any sample at any time.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "trireme/base/dtype.h"
#include "trireme/base/rng.h"
#include "trireme/base/shape.h"
#include "trireme/data/batch.h"

namespace trireme {

// One tensor of a batch, for a single sample: `row` is its shape without the batch dim.
struct SampleTensor {
  std::string name;
  DType dtype;
  Shape row;
};

class DataSet {
 public:
  virtual ~DataSet() = default;

  virtual int64_t size() const = 0;  // samples in an epoch, the same in every epoch
  virtual std::span<const SampleTensor> tensors() const = 0;

  // Writes sample `index` as it is in `epoch` to row `row` of the batch, whose tensors are those of
  // tensors() in the same order. Thread-safe; allocates nothing; may throw Error.
  virtual void write(int64_t epoch, int64_t index, int64_t row, Batch& batch) const = 0;

  // Where a sample comes from, for people: its number in the file or folder that it is of, and for a file of
  // its own that file's path below the folder of the data.
  struct Origin {
    int64_t number = 0;
    std::string file = {};
  };
  virtual Origin origin(int64_t index) const { return {index, ""}; }

  // The class, or the text, that a sample is of, from 0; −1: the data does not say.
  virtual int64_t group([[maybe_unused]] int64_t index) const { return -1; }

  // Writes a row that counts for nothing in the loss: zeros, with kIgnoreTarget as target.
  virtual void write_padding(int64_t row, Batch& batch) const = 0;
};

// The stream of random numbers for one use in one epoch, e.g. epoch_key(seed, "data.shuffle", 3).
constexpr RngKey epoch_key(uint64_t seed, std::string_view use, int64_t epoch) {
  return {seed, stream_id(use) + static_cast<uint64_t>(epoch) * 0x9E3779B97F4A7C15u};
}

}  // namespace trireme
