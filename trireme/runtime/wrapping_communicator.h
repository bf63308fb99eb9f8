// A communicator over another one: what those that watch, slow or stage its collectives and messages leave as
// it is.
#pragma once

#include "trireme/kernels/communicator.h"

namespace trireme {

class WrappingCommunicator : public Communicator {
 public:
  Arrived wait_any(std::span<const std::byte* const> data, Silence too_long) override {
    return inner_.wait_any(data, too_long);
  }
  bool try_wait(const std::byte* data) override { return inner_.try_wait(data); }
  void give_up(const std::string& reason) override { inner_.give_up(reason); }
  bool bear_loss_of(const std::vector<int>& ranks) override { return inner_.bear_loss_of(ranks); }
  bool is_lost(int rank) const override { return inner_.is_lost(rank); }
  void progress() override { inner_.progress(); }
  void add_group(const std::string& name, const std::vector<int>& members) override {
    inner_.add_group(name, members);
  }
  Place place(std::string_view axis) const override { return inner_.place(axis); }
  double timeout_seconds() const override { return inner_.timeout_seconds(); }
  bool adds_in_pairs() const override { return inner_.adds_in_pairs(); }
  std::shared_ptr<std::byte> allocate(size_t bytes) override { return inner_.allocate(bytes); }
  void lend(const std::shared_ptr<std::byte>& memory, size_t bytes) override { inner_.lend(memory, bytes); }
  double take_seconds() override { return inner_.take_seconds(); }
  uint64_t take_bytes() override { return inner_.take_bytes(); }

 protected:
  explicit WrappingCommunicator(Communicator& inner) : inner_(inner) {}  // which outlives it

  Communicator& inner_;
};

}  // namespace trireme
