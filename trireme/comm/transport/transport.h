// Transport: moves bytes between ranks. Tagged, asynchronous, and progressed by the caller: no thread works
// behind the rank's back, so a rank's transport needs no locks of its own and a CPU rank's cores stay its
// own. One object per rank, used by one thread at a time.
//
// Contract, held by one conformance suite for all transports:
//  - Messages from one rank to another under one stream arrive in the order sent, whole or with an error.
//  - A send is done when its memory may be changed, a receive when its bytes are in place (and combined).
//  - Sends and receives of one stream may be posted in any order relative to each other; a message that comes
//    before its receive is kept, within limits that hold back the sender rather than fail.
//  - A peer that is gone, cut off or at odds makes every call here throw PeerError, on every rank, from then
//    on, but see bear_loss_of(). Before the first throw the transport gives up all requests and their
//    memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/comm/transport/reduce.h"

namespace trireme::comm {

using trireme::Clock;

// What a message belongs to. `stream` is matched: the group and the number of the collective in it. `call` is
// compared: when the two ends differ, their ranks made different calls (see Call::pack).
struct Label {
  uint64_t stream = 0;
  uint64_t call = 0;
};

constexpr uint64_t make_stream(uint32_t group, uint32_t sequence) {
  return uint64_t{group} << 32 | sequence;
}

// A send or a receive under way. The caller owns it and neither moves nor destroys it until `done`. All but
// `done` is the transport's.
struct Request {
  bool done = true;

  int peer = 0;
  Label label;
  std::byte* data = nullptr;
  size_t bytes = 0;
  size_t moved = 0;           // bytes handed over or taken so far
  Combine combine = nullptr;  // of a receive: nullptr copies
  Request* next = nullptr;
  uint64_t detail = 0;  // for what one transport alone needs
};

// Why a job can not go on, and because of which rank.
enum class Failure : uint8_t { died, cut_off, timed_out, mismatch, aborted };

class PeerError : public Error {
 public:
  PeerError(Failure failure, int rank, const std::string& text)
      : Error(text), failure_(failure), rank_(rank) {}
  Failure failure() const { return failure_; }
  int rank() const { return rank_; }  // in the transport's numbering; -1 when it is not known which

 private:
  Failure failure_;
  int rank_;
};

// What is known of a rank when an operation does not end.
enum class Arrival : uint8_t { arrived, not_arrived, silent, gone };

struct Counters {
  uint64_t messages_sent = 0;
  uint64_t bytes_sent = 0;  // payload alone: what Steps promise
  uint64_t bytes_received = 0;
  // What a native path moved past the message layer: bytes this rank read from memory of other ranks.
  uint64_t bytes_read_directly = 0;
};

// Memory from which the transport sends without a copy, and that its native paths reduce in place. Freed with
// the last owner. Aligned to 4096 bytes, zeroed, its pages present.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual std::span<std::byte> bytes() = 0;
};

// One operation of a native path under way; the caller's, like Request.
struct NativeOperation {
  bool done = true;
  uint32_t sequence = 0;
  uint64_t call = 0;  // packed
  std::byte* data = nullptr;
  size_t bytes = 0;
  uint32_t phase = 0;  // the native path's own
  size_t position = 0;
  uint64_t detail = 0;
};

// A transport's faster way to run collectives of one group, behind the same call.
class Native {
 public:
  virtual ~Native() = default;
  // Whether it can run this. The answer must be the same on all ranks of the group, so it may depend on the
  // call alone, not on where the buffer lies.
  virtual bool offers(const Call& call) const = 0;
  // Collective over the group; operations of one group are started in the same order on all its ranks. The
  // caller has filled in sequence, call, data and bytes. `data` is in place: whole vector in, result out.
  // Lets the other ranks know and returns: the rest is left to progress().
  virtual void start(NativeOperation& operation) = 0;
  // Does what can be done without waiting; true when it moved anything. Sets operation.done.
  virtual bool progress(NativeOperation& operation) = 0;
};

class Operation;

// Operations in flight on one transport, of all groups, so that waiting for one moves all. The engine's.
struct LiveOperations {
  Operation* first = nullptr;
};

class Transport {
 public:
  Transport(int rank, int ranks) : rank_(rank), ranks_(ranks) {}
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  virtual std::string_view name() const = 0;  // "shm"

  // Zero bytes are a message too. `peer` is never this rank.
  virtual void send(int peer, Label label, std::span<const std::byte> bytes, Request& request) = 0;
  // A message of another size than `into` is a mismatch. `combine` is applied to bytes as they come.
  virtual void receive(int peer, Label label, std::span<std::byte> into, Combine combine,
                       Request& request) = 0;

  // Moves what can be moved without waiting; true when anything was moved.
  virtual bool progress() = 0;
  // Returns when progress() may have something to do, or at the deadline: spins briefly, then sleeps.
  virtual void idle(Clock::time_point deadline) = 0;

  // Ordinary memory where the transport has nothing better.
  virtual std::unique_ptr<Memory> allocate(size_t bytes) = 0;

  // This rank has entered this stream with this call. Peers compare, and arrivals() reports.
  virtual void announce(Label label) = 0;
  // Who of `ranks` has entered the stream, as far as can be found out until the deadline. For error messages:
  // it answers after a failure too.
  virtual std::vector<Arrival> arrivals(uint64_t stream, std::span<const int> ranks,
                                        Clock::time_point deadline) = 0;

  // Ends every pending and later operation on all ranks, with this reason.
  virtual void abort(std::string_view reason) = 0;

  // From now on the loss of these ranks is theirs alone: requests with one that is gone are dropped and
  // calls about it throw, while all else goes on. Equal on all ranks. False where this transport can not:
  // then the loss of any rank ends the job, as ever.
  virtual bool bear_loss_of(std::span<const int> /*ranks*/) { return false; }
  virtual bool bears_loss_of(int /*peer*/) const { return false; }
  // What became of a rank whose loss is borne; null while it is there, and for all others.
  virtual const PeerError* lost(int /*peer*/) const { return nullptr; }
  // Gives up a rank whose loss is borne, and sends it the reason: from now on it is lost.
  virtual void give_up_on(int /*peer*/, std::string_view /*reason*/) {}

  // The group's native path, or nullptr. Collective over `members`, which are ranks of this transport in the
  // order of the group. `group` is the same number on all of them.
  virtual std::unique_ptr<Native> native(uint32_t group, std::span<const int> members) = 0;

  const Counters& counters() const { return counters_; }
  LiveOperations& live() { return live_; }

 protected:
  Counters counters_;

 private:
  int rank_;
  int ranks_;
  LiveOperations live_;
};

// Memory from the heap, for transports that have nothing better.
std::unique_ptr<Memory> heap_memory(size_t bytes);

// What transports say when two ranks are at odds.
// "ranks 0 and 2 made different calls: rank 0 all_reduce of …, rank 2 barrier; …"
std::string calls_differ(int rank, uint64_t call, int other, uint64_t other_call);
// The same call, but a message of another size than the receiver expected.
std::string sizes_differ(int receiver, size_t expected_bytes, int sender, size_t sent_bytes, uint64_t call);

}  // namespace trireme::comm
