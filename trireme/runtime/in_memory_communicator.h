// Collectives and messages among ranks that are threads of one process and share a device: they read and
// write each other's memory there, and the host's communicator carries addresses alone. Sums add neighbours
// first, so that they have the bits that they have on the CPU.
//
// A rank *offers* memory: where it lies, and an event after which the device may touch it. A rank that knows
// the offers of all puts its share of the work on its own stream and says so; everyone's stream then waits
// for the shares of all. No rank waits for the device, except at the end: what a rank has offered stays until
// nobody works on it.
#pragma once

#include <list>

#include "trireme/runtime/device.h"
#include "trireme/runtime/staged_communicator.h"
#include "trireme/runtime/wrapping_communicator.h"

namespace trireme {

class InMemoryCommunicator final : public WrappingCommunicator {
 public:
  // Over one of the host's memory; work goes in the order of the stream, by kernels of this table. All
  // outlive it.
  InMemoryCommunicator(Communicator& inner, Stream& stream, const KernelTable& kernels);
  ~InMemoryCommunicator() override;

  void start(const Collective& call) override;
  void start_send(int peer, const std::byte* data, int64_t bytes, int tag) override;
  void start_receive(int peer, std::byte* data, int64_t bytes, int tag) override;
  void wait(const std::byte* data) override;
  bool try_wait(const std::byte* data) override;
  Arrived wait_any(std::span<const std::byte* const> data, Silence too_long) override;
  // Of the host alone: it is called while launches are noted down, to which nothing may be added.
  void progress() override { inner_.progress(); }
  void all_to_all(const AllToAll& call) override;
  // Of what the device moves: addresses are not counted.
  double take_seconds() override;
  uint64_t take_bytes() override;

 private:
  struct Offer;
  struct Exchange;
  using Offers = std::span<Offer* const>;  // of all ranks of an axis, or of the sender
  using Share = std::function<void(Offers)>;

  Offer* offer(std::byte* data, int holders);
  Exchange& begin(const std::byte* data, size_t offers, Offer* own, Share share);
  void end();
  void collective(std::string_view axis, const std::byte* name, std::byte* offered, Share share);
  const Kernel* sums(DType dtype, Reduction reduction) const;
  void add_up(const Kernel& kernel, Offers offers, size_t into, int64_t first, int64_t count, DType dtype);
  void advance();
  void advance(Exchange& exchange);
  bool forget_if_through(const std::byte* data);
  template <typename Done>
  void until(const Done& done);

  Stream& stream_;
  const KernelTable& kernels_;
  StagedCommunicator staged_;      // for what there is no kernel for: the largest of all
  std::list<Exchange> under_way_;  // in the order of their starts
  uint64_t bytes_ = 0;
  double seconds_ = 0;
};

}  // namespace trireme
