// How two processes of a job prove to each other, over a connection that anybody may have opened, that both
// know the job's secret and mean the same job. Three frames of fixed size, so that nothing is allocated and
// no length is believed before the proof:
//
//   acceptor → connector   Challenge   magic, version, a fresh nonce
//   connector → acceptor   Proof       magic, version, a fresh nonce, who and what for, MAC
//   acceptor → connector   Verdict     magic, welcome or why not, MAC
//
// Each MAC (HMAC-SHA-512-256 under the secret) covers the role and all that was said before it, so a proof
// from another connection, of the other side, for another rank, purpose, job or generation is worth nothing.
// The state machines here move bytes only; they never wait and own no socket. What is said afterwards is
// neither encrypted nor authenticated.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "trireme/comm/wire/secret.h"

namespace trireme::comm {

enum class Purpose : uint32_t { rendezvous = 1, mesh = 2 };

// What a process is to a job: the same on all ranks but for `rank`.
struct Membership {
  static constexpr uint32_t kMaxRanks = 1 << 20;
  std::string job = "job";  // any text; tells apart jobs with the same secret
  uint32_t generation = 0;  // ranks that form anew after one has gone count up; older ones are refused
  int rank = 0;
  int ranks = 1;
};

enum class Verdict : uint32_t {
  welcome,
  unproven,          // wrong secret, or not one of us at all; the only one that is not authenticated itself
  other_job,         // same secret, other job
  other_generation,  // detail: the acceptor's
  other_ranks,       // the job has another number of ranks; detail: how many
  other_rank,        // the connector wanted another rank than this; detail: which one this is
  taken,             // this rank is here already
};
// What a refusal means to the one who was refused.
std::string to_text(Verdict verdict, uint32_t detail);

namespace handshake {

constexpr size_t kNonceBytes = 32;
constexpr size_t kMacBytes = 32;
using Mac = std::array<uint8_t, kMacBytes>;

struct Challenge {
  std::array<char, 8> magic;
  std::array<uint8_t, kNonceBytes> nonce;
};
struct Claim {  // a Proof without its MAC
  std::array<char, 8> magic;
  std::array<uint8_t, kNonceBytes> nonce;
  std::array<uint8_t, 16> job;  // a hash of its name
  uint32_t generation, rank, ranks, to_rank, purpose, reserved;
};
struct Proof {
  Claim claim;
  Mac mac;
};
struct Answer {
  std::array<char, 8> magic;
  uint32_t verdict, detail;
  Mac mac;
};

}  // namespace handshake

// One side of one handshake. Give it what was received, at most wanted() bytes at a time, and send what is
// in to_send(), until it is done or failed.
class Handshake {
 public:
  enum class State : uint8_t { working, done, failed };

  virtual ~Handshake() = default;
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  size_t wanted() const { return wanted_ - received_; }
  void receive(std::span<const std::byte> bytes);
  std::span<const std::byte> to_send() const { return std::span(outgoing_).subspan(sent_, to_send_ - sent_); }
  void sent(size_t bytes) { sent_ += bytes; }

  // The acceptor has its last frame still to send when it is no longer working.
  State state() const { return state_; }
  Verdict verdict() const { return verdict_; }
  uint32_t detail() const { return detail_; }

 protected:
  // `secret` outlives the handshake.
  Handshake(const Secret& secret, const Membership& self, Purpose purpose);

  virtual void frame_received() = 0;
  template <typename Frame>
  void send_frame(const Frame& frame);
  template <typename Frame>
  Frame frame() const;
  void expect(size_t bytes);
  void finish(Verdict verdict, uint32_t detail);

  handshake::Mac mac_of_claim() const;
  handshake::Mac mac_of_answer(const handshake::Answer& answer) const;

  const Secret& secret_;
  const Membership self_;
  const Purpose purpose_;
  handshake::Challenge challenge_{};
  handshake::Claim claim_{};

 private:
  static constexpr size_t kMaxFrameBytes = 128;
  std::array<std::byte, kMaxFrameBytes> incoming_{}, outgoing_{};
  size_t wanted_ = 0, received_ = 0, to_send_ = 0, sent_ = 0;
  State state_ = State::working;
  Verdict verdict_ = Verdict::unproven;
  uint32_t detail_ = 0;
};

class AcceptorHandshake final : public Handshake {
 public:
  // May this rank, which has proved itself and means this job, come in? `welcome`, `taken` or `other_rank`.
  using Judge = std::function<Verdict(int rank)>;

  AcceptorHandshake(const Secret& secret, const Membership& self, Purpose purpose, Judge judge);
  // Who it is, once proven; -1 before.
  int peer_rank() const { return peer_rank_; }
  int peer_ranks() const { return peer_ranks_; }

 private:
  void frame_received() override;
  void answer(Verdict verdict, uint32_t detail);
  Judge judge_;
  int peer_rank_ = -1;
  int peer_ranks_ = -1;
};

class ConnectorHandshake final : public Handshake {
 public:
  ConnectorHandshake(const Secret& secret, const Membership& self, Purpose purpose, int to_rank);

 private:
  void frame_received() override;
  bool challenged_ = false;
};

}  // namespace trireme::comm
