// One collective of one size on this rank: how its memory is filled, started, and what must come out.
// Numbers are small integers, so that sums are exact in every dtype and a wrong one is seen.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/collective/link_table.h"
#include "trireme/comm/context.h"

namespace trireme::bench {

class CollectiveCase {
 public:
  // Collective over all ranks, for transports whose memory is.
  CollectiveCase(comm::Context& context, comm::Group& group, comm::Collective collective, DType dtype,
                 size_t bytes, comm::MemoryKind memory, size_t segment_bytes);

  void fill();
  void clear();  // zeros, which stay zeros however often they are added
  comm::Handle start(comm::Algorithm algorithm);
  // "" when all is right on this rank, else the first element that is not.
  std::string problem() const;

  size_t bytes() const;  // of whole elements
  // Bytes that a rank has to send, for each byte of the vector, whatever the algorithm: bus bandwidth is
  // bytes x this / seconds.
  double bus_factor() const;

 private:
  enum class From { all, root, owner };  // the sum of all ranks, or what one of them gave
  struct Result {
    Part elements;
    From from;
  };
  Result result() const;

  comm::Group& group_;
  comm::Collective collective_;
  DType dtype_;
  int64_t count_;
  size_t segment_bytes_;
  std::unique_ptr<comm::Memory> memory_;
  std::unique_ptr<comm::Memory> output_;  // of all_to_all, which is not in place
};

}  // namespace trireme::bench
