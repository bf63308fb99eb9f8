// Collectives and messages for a device whose memory no transport reaches: what is sent is copied to the host
// first, and what has come is copied back. Any transport will do, and sums have the bits that they have on
// the CPU. The price is a wait for the device at each start, and two copies.
#pragma once

#include <cstddef>
#include <vector>

#include "trireme/kernels/communicator.h"
#include "trireme/runtime/device.h"

namespace trireme {

class StagedCommunicator final : public Communicator {
 public:
  // Over one that works on memory of the host; copies go in the order of the stream. Both outlive it.
  StagedCommunicator(Communicator& inner, Stream& stream) : inner_(inner), stream_(stream) {}

  void start_all_reduce(std::string_view axis, std::byte* data, int64_t count, DType dtype,
                        Reduction reduction) override;
  void start_reduce_scatter(std::string_view axis, std::byte* data, int64_t count, DType dtype,
                            Reduction reduction) override;
  void start_all_gather(std::string_view axis, std::byte* data, int64_t count, DType dtype) override;
  void start_send(int peer, const std::byte* data, int64_t bytes, int tag) override;
  void start_receive(int peer, std::byte* data, int64_t bytes, int tag) override;
  void wait(const std::byte* data) override;
  void progress() override { inner_.progress(); }
  void all_to_all(std::string_view axis, const std::byte* from, std::byte* to, int64_t count,
                  DType dtype) override;
  void add_group(const std::string& name, const std::vector<int>& members) override {
    inner_.add_group(name, members);
  }
  bool adds_in_pairs() const override { return inner_.adds_in_pairs(); }
  // Of the host.
  std::shared_ptr<std::byte> allocate(size_t bytes) override { return inner_.allocate(bytes); }
  double take_seconds() override { return inner_.take_seconds(); }
  uint64_t take_bytes() override { return inner_.take_bytes(); }

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

  Communicator& inner_;
  Stream& stream_;
  std::vector<Stage> free_;
  std::vector<Started> under_way_;  // in the order of their starts
};

}  // namespace trireme
