// The transport of ranks on many hosts: one connection between every two of them, non-blocking, moved by the
// rank that uses it. Lives for one membership: when a rank has gone, the others form the next generation with
// a new rendezvous and a new TcpTransport.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/comm/transport/tcp/inbox.h"
#include "trireme/comm/transport/tcp/outbox.h"
#include "trireme/comm/transport/transport.h"
#include "trireme/comm/wire/handshake.h"
#include "trireme/comm/wire/rendezvous.h"
#include "trireme/comm/wire/secret.h"
#include "trireme/comm/wire/socket.h"

namespace trireme::comm {

// How much is read at once. Numbers are combined from this buffer, so it should stay in the second-level
// cache together with what they are combined into.
inline constexpr size_t kReadBufferBytes = 256 * 1024;

struct TcpOptions {
  Secret secret;
  std::string host = "127.0.0.1";  // the one address of this host to listen on
  std::string job = "job";         // as in Membership
  uint32_t generation = 0;
  double timeout_seconds = 120;                // of the group's operations; all waits here derive from it
  size_t unexpected_bytes = size_t{64} << 20;  // kept per peer of messages that come before their receive
  double spin_seconds = 100e-6;                // before a waiting rank sleeps
};

class TcpTransport final : public Transport, private Inbox::Owner {
 public:
  // Collective over the ranks of the rendezvous.
  TcpTransport(Rendezvous& rendezvous, const TcpOptions& options);
  // Says goodbye: ranks that wait for this one get an Error that it left; the others are not disturbed.
  ~TcpTransport() override;

  std::string_view name() const override { return "tcp"; }
  void send(int peer, Label label, std::span<const std::byte> bytes, Request& request) override;
  void receive(int peer, Label label, std::span<std::byte> into, Combine combine, Request& request) override;
  bool progress() override;
  void idle(Clock::time_point deadline) override;
  std::unique_ptr<Memory> allocate(size_t bytes) override;
  void announce(Label label) override;
  std::vector<Arrival> arrivals(uint64_t stream, std::span<const int> ranks,
                                Clock::time_point deadline) override;
  void abort(std::string_view reason) override;
  bool bear_loss_of(std::span<const int> ranks) override;
  bool bears_loss_of(int peer) const override;
  const PeerError* lost(int peer) const override;
  void give_up_on(int peer, std::string_view reason) override;
  std::unique_ptr<Native> native(uint32_t group, std::span<const int> members) override;

 private:
  struct Peer {
    Peer(int self, int number, size_t budget_bytes) : rank(number), inbox(self, number, budget_bytes) {}
    int rank;
    Descriptor socket;  // none once the peer is gone
    std::string address;
    Inbox inbox;
    Outbox outbox;
    std::vector<std::byte> carry;     // read, and not taken by the inbox yet
    bool left = false;                // said goodbye
    bool may_be_lost = false;         // the job does without it
    std::optional<PeerError> lost;    // and has to
    uint32_t watched = 0;             // epoll events
    std::optional<Arrival> answer;    // to the survey under way
    uint64_t entered = ~uint64_t{0};  // the last stream that it asked for, and so is in
    uint64_t asked = ~uint64_t{0};    // the last stream that ask() asked for
  };

  // tcp.cc. What follows never throws but for check(): failures are noted, and thrown by the public calls.
  void check() const;
  void check(const Peer& peer) const;  // for calls about it
  void check_left(Peer& peer);

  // tcp_io.cc: moving bytes, without waiting but for sleep() and flush_until().
  bool step();
  bool sweep();
  bool flush(Peer& peer);
  bool read(Peer& peer);
  void take(Peer& peer, std::byte* start, size_t bytes);
  void take_carry(Peer& peer);
  void watch(Peer& peer);
  bool sleep(Clock::time_point deadline);  // whether something happened before it
  void flush_until(Clock::time_point deadline);

  // tcp_failure.cc: who is where, and the end.
  void fail(const PeerError& error);
  void gone(Peer& peer, int error);
  void lose(Peer& peer, const PeerError& error);
  void ask();
  void control(int peer, const FrameHeader& header, std::string_view payload) override;
  void unexpected(int peer, Label label) override;
  const Label* entered_label(uint64_t stream) const;
  bool has_entered(uint64_t stream) const;

  TcpOptions options_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank; null for this one
  Descriptor epoll_;
  std::unique_ptr<Memory> buffer_;
  bool crowded_;        // more ranks on this host than cores: give way while spinning
  uint32_t steps_ = 0;  // counts step(), to look at everybody now and then
  bool sweep_due_ = true;
  std::optional<PeerError> failure_;
  uint64_t surveyed_ = 0;                                    // the stream that arrivals() last asked for
  std::array<Label, 256> entered_;                           // the last calls, by a hash of the stream
  std::vector<std::pair<uint32_t, uint32_t>> last_entered_;  // group and its last number
};

}  // namespace trireme::comm
