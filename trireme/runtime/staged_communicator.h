// Collectives and messages for a device whose memory no transport reaches: what is sent is copied to the host
// first, and what has come is copied back. Any transport will do, and sums have the bits that they have on
// the CPU. The price is a wait for the device at each start, and two copies.
#pragma once

#include <cstddef>
#include <vector>

#include "trireme/runtime/device.h"
#include "trireme/runtime/wrapping_communicator.h"

namespace trireme {

class StagedCommunicator final : public WrappingCommunicator {
 public:
  // Over one that works on memory of the host, which is also what allocate() gives; copies go in the order of
  // the stream. Both outlive it.
  StagedCommunicator(Communicator& inner, Stream& stream) : WrappingCommunicator(inner), stream_(stream) {}

  void start(const Collective& call) override;
  void start_send(int peer, const std::byte* data, int64_t bytes, int tag) override;
  void start_receive(int peer, std::byte* data, int64_t bytes, int tag) override;
  void wait(const std::byte* data) override;
  Arrived wait_any(std::span<const std::byte* const> data, Silence too_long) override;
  bool try_wait(const std::byte* data) override;
  void all_to_all(const AllToAll& call) override;

 private:
  // Memory of the host, kept for the next that needs as much, so that a step allocates nothing.
  struct Stage {
    std::shared_ptr<std::byte> memory;
    size_t bytes;
  };
  struct Started {
    const std::byte* data;
    std::byte* back;  // where what has come goes; null where nothing does
    size_t bytes;
    Stage stage;
  };

  Stage take(size_t bytes);
  Stage taken_with(const std::byte* data, size_t bytes);  // and what lies at `data`
  std::vector<Started>::iterator first_on(const std::byte* data);
  void end(std::vector<Started>::iterator one);  // it is through

  Stream& stream_;
  std::vector<Stage> free_;
  std::vector<Started> under_way_;  // in the order of their starts
};

}  // namespace trireme
