// Messages between the ranks of a placed workflow, over any transport: those that are expected are taken as
// they come, those that are sent need not be waited for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <span>
#include <vector>

#include "trireme/comm/transport/transport.h"

namespace trireme::placed {

using Bytes = std::vector<std::byte>;

// Made before the transport and destroyed after it: messages may be under way until then.
class Mail {
 public:
  Mail() = default;
  Mail(const Mail&) = delete;
  Mail& operator=(const Mail&) = delete;
  // Before all else. The loss of a rank in `may_be_lost` ends nothing here: lost() of the transport has it.
  void open(comm::Transport& transport, std::span<const int> may_be_lost);

  // So many messages of a stream come from `peer`, and are taken one after another: all of this size, or of
  // any size where it is kAnySize, as both ends know. A rank that leaves when all that it promised are there
  // is not lost.
  static constexpr size_t kAnySize = ~size_t{0};
  void take(int peer, uint32_t stream, size_t bytes, int64_t count,
            std::function<void(std::span<const std::byte>)> handle);
  // Dropped where the peer is lost.
  void send(int peer, uint32_t stream, Bytes message);
  void send_any_size(int peer, uint32_t stream, Bytes message);

  // Hands over what has come, and returns whether that was anything.
  bool move();
  // Until move() may have something to do, or the deadline.
  void idle(Clock::time_point deadline) { transport_->idle(deadline); }
  // Until all that was sent is out of this rank's hands, or the deadline.
  void flush(Clock::time_point deadline);

 private:
  struct Box {
    int peer;
    uint32_t stream;
    size_t bytes;
    int64_t left;  // messages that are still to come
    std::function<void(std::span<const std::byte>)> handle;
    uint64_t size = 0;  // of the message that comes, where it may have any
    bool waits_for_size = false;
    Bytes buffer;
    comm::Request request;
  };
  struct Sent {
    Bytes message;
    comm::Request request;
  };
  void post(Box& box);
  template <typename Call>
  void unless_lost(int peer, const Call& call);

  comm::Transport* transport_ = nullptr;
  std::deque<Box> boxes_;
  std::list<Sent> sent_;
};

}  // namespace trireme::placed
