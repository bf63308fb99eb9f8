// Inbox: what comes from one peer. Cuts the bytes into frames, matches messages with receives, and keeps
// those that nobody waits for yet, within a budget. Knows nothing of sockets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/comm/transport/tcp/frame.h"
#include "trireme/comm/transport/transport.h"

namespace trireme::comm {

class Inbox {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void control(int peer, const FrameHeader& header, std::string_view payload) = 0;
    // A message that no receive was posted for; the owner may know that it is at odds with what this rank
    // has called.
    virtual void unexpected(int peer, Label label) = 0;
  };

  Inbox(int self, int peer, size_t budget_bytes) : self_(self), peer_(peer), budget_bytes_(budget_bytes) {}

  // Posts a receive, or serves it from what was kept. Throws PeerError (mismatch), as take() does. No receive
  // is done whose bytes are not those that were sent.
  void post(Request& request);
  // Whether a posted receive is not served yet.
  bool waiting() const { return receives_.first != nullptr || arriving_.request != nullptr; }
  // Of the first receive for which nothing has come.
  std::optional<uint64_t> awaited_stream() const {
    if (receives_.first == nullptr) return std::nullopt;
    return receives_.first->label.stream;
  }

  // Takes the next bytes of the stream, which lie in memory as position() % 8 says, and returns how many.
  // What is left has to be given again, followed by more: a header or number that is not complete, or all
  // from the message on at which the inbox is held(). A header that cannot be is a PeerError too
  // (cut_off: what follows means nothing), and so is a payload that was altered (mismatch).
  size_t take(std::span<const std::byte> bytes, Owner& owner);
  uint64_t position() const { return position_; }
  // The next message would exceed the budget: read no more until a receive was posted.
  bool held() const { return held_; }
  void take_beyond_budget() { budget_bytes_ = kMaxMessageBytes * 2; }

  // Where the rest of the message that is arriving may be read to without a copy; empty if it is short or is
  // to be combined.
  std::span<std::byte> direct() const;
  void took_directly(size_t bytes);
  // How many bytes beyond those are worth reading into a buffer of `room`: no more than the next header when
  // what follows it can probably be read to its place.
  size_t read_ahead(size_t room) const;

  std::optional<uint64_t> kept_call(uint64_t stream) const;
  uint64_t bytes_received() const { return bytes_received_; }

  // Lets go of all requests; messages are thrown away from now on.
  void discard();

 private:
  struct Kept {
    Label label;
    size_t bytes = 0;
    std::vector<std::byte> data;  // what has come of them
  };
  struct Receives {
    Request* first = nullptr;
    Request** end = &first;
    void push(Request& request);
    Request* take(uint64_t stream);  // the first of this stream, or nullptr
  };
  struct Arriving {
    bool active = false;
    FrameHeader header{};
    size_t moved = 0;            // payload bytes dealt with
    uint32_t crc = 0;            // of those
    Request* request = nullptr;  // one of these, or neither: thrown away
    Kept* kept = nullptr;
    bool is_control = false;
  };

  bool begin(const FrameHeader& header, Owner& owner);
  size_t take_payload(std::span<const std::byte> bytes);
  void finish(Owner& owner);
  void check_match(const Request& request, Label label, size_t bytes) const;
  void check_payload(const Arriving& arrived) const;
  static void deliver(Request& request, std::span<const std::byte> bytes);
  void complete(Request& request);

  const int self_;
  const int peer_;
  size_t budget_bytes_;
  Receives receives_;
  std::list<Kept> kept_;
  std::list<Kept> spare_;  // with their memory, to be used again
  size_t kept_bytes_ = 0;
  Arriving arriving_;
  std::string control_;
  size_t skip_ = 0;  // padding to come
  uint64_t position_ = 0;
  uint64_t bytes_received_ = 0;
  bool held_ = false;
  bool discarding_ = false;
};

}  // namespace trireme::comm
