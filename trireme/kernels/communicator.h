// What collective kernels ask of the runtime: collectives over the ranks along one axis of the mesh. All of
// these wait, and throw an Error when a rank is gone. Counts are in elements; parts are equal, one for each
// rank of the axis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "trireme/base/dtype.h"

namespace trireme {

class Communicator {
 public:
  enum class Reduction { kSum, kMax };

  virtual ~Communicator() = default;
  virtual void all_reduce(std::string_view axis, std::byte* data, int64_t count, DType dtype,
                          Reduction reduction) = 0;
  // `data` is one part for each rank; afterwards this rank's own part is reduced and the others are
  // undefined.
  virtual void reduce_scatter(std::string_view axis, std::byte* data, int64_t count, DType dtype,
                              Reduction reduction) = 0;
  // `data` is one part for each rank, of which this rank's own is given.
  virtual void all_gather(std::string_view axis, std::byte* data, int64_t count, DType dtype) = 0;
  // Part r of `from` goes to rank r; part r of `to` comes from there.
  virtual void all_to_all(std::string_view axis, const std::byte* from, std::byte* to, int64_t count,
                          DType dtype) = 0;

  // Whether all_reduce adds neighbours first, then pairs of neighbours, and so on: ((0 + 1) + (2 + 3)) + …, on
  // every transport. Then what 2^k ranks add up has the same bits for every k.
  virtual bool adds_in_pairs() const { return false; }

  // Time spent in the calls above since this was last asked, in seconds.
  virtual double take_seconds() = 0;
};

}  // namespace trireme
