// A transport over another one whose messages take as long as on a slower link (collective/emulated_link.h).
// Every message is sent at once, with the moment at which its first byte would arrive in front of it; the
// receiver lets nobody know of it before its last byte would have. So a message travels while both ranks
// compute, as it does on a real link, and no thread is needed for that. A rank sends its messages after one
// another, and receives them so.
//
// For ranks of one host, whose clocks are one.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "trireme/comm/collective/emulated_link.h"
#include "trireme/comm/transport/transport.h"

namespace trireme::comm {

class EmulatedTransport final : public Transport {
 public:
  EmulatedTransport(std::unique_ptr<Transport> inner, const EmulatedLink& link)
      : EmulatedTransport(std::move(inner), [link](int, int) { return link; }) {}
  // Equal on all ranks. To, and from, ranks over equal links a rank has one wire.
  EmulatedTransport(std::unique_ptr<Transport> inner, const EmulatedLinks& links);

  std::string_view name() const override { return inner_->name(); }
  void send(int peer, Label label, std::span<const std::byte> bytes, Request& request) override;
  void receive(int peer, Label label, std::span<std::byte> into, Combine combine, Request& request) override;
  bool progress() override;
  void idle(Clock::time_point deadline) override;
  std::unique_ptr<Memory> allocate(size_t bytes) override { return inner_->allocate(bytes); }
  void announce(Label label) override { inner_->announce(label); }
  std::vector<Arrival> arrivals(uint64_t stream, std::span<const int> ranks,
                                Clock::time_point deadline) override {
    return inner_->arrivals(stream, ranks, deadline);
  }
  void abort(std::string_view reason) override { inner_->abort(reason); }
  bool bear_loss_of(std::span<const int> ranks) override { return inner_->bear_loss_of(ranks); }
  bool bears_loss_of(int peer) const override { return inner_->bears_loss_of(peer); }
  const PeerError* lost(int peer) const override { return inner_->lost(peer); }
  void give_up_on(int peer, std::string_view reason) override { inner_->give_up_on(peer, reason); }
  // None: a native path would go past the messages.
  std::unique_ptr<Native> native(uint32_t, std::span<const int>) override { return nullptr; }

 private:
  using Nanoseconds = int64_t;  // of the clock
  // A message under way: when its first byte arrives, and the message itself.
  struct Flight {
    enum class Kind : uint8_t { send, receive } kind = Kind::send;
    int peer = 0;
    Request* request = nullptr;  // the caller's
    Request moment_request, request_inside;
    Nanoseconds moment = 0;  // of its first byte
    Nanoseconds due = -1;    // of its last; −1: not known yet
    size_t bytes = 0;
  };

  Flight& begin(Flight::Kind kind, int peer, size_t bytes, Request& request);
  // In one direction: the link of each peer, and until when its wire is taken.
  struct Wires {
    std::vector<EmulatedLink> links;
    std::vector<size_t> wires;
    std::vector<Nanoseconds> until;
    void add(const EmulatedLink& link);
    Nanoseconds& until_of(int peer) { return until[wires[static_cast<size_t>(peer)]]; }
    Nanoseconds time(int peer, size_t bytes) const;
  };
  void give_wire(Nanoseconds now);

  std::vector<uint64_t> sent_to_;        // messages so far, by peer
  std::vector<Nanoseconds> moments_to_;  // of the last one, by peer
  Wires sends_, receives_;
  std::deque<Flight> flights_;  // all that were ever needed at a time
  std::vector<Flight*> free_, under_way_, arriving_;
  std::unique_ptr<Transport> inner_;  // goes first: it may still look at flights
};

}  // namespace trireme::comm
