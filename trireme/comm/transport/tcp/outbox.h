// Outbox: what goes to one peer: messages in the order posted, and control frames between them. Knows nothing
// of sockets; it says which bytes come next, and its owner says how many went.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "trireme/comm/transport/tcp/frame.h"
#include "trireme/comm/transport/transport.h"

namespace trireme::comm {

class Outbox {
 public:
  Outbox() = default;
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  // request.moved counts the bytes of the whole frame.
  void post(Request& request);
  // Goes before messages that have not begun.
  void post_control(FrameKind kind, uint64_t stream, uint64_t call, std::string_view payload);

  bool empty() const { return first_ == nullptr && control_.empty(); }
  bool has_messages() const { return first_ != nullptr; }

  // The next bytes, in pieces that hold until sent() or any other call.
  std::span<const iovec> next();
  void sent(size_t bytes);

  // Lets go of all requests. A message that has begun is copied and goes out whole, so that what follows can
  // be understood.
  void discard();

 private:
  static constexpr size_t kMessages = 8;  // in one call of the system

  void add_piece(const void* data, size_t bytes, size_t& skip);
  void add_frame(Request& request, size_t slot);

  Request* first_ = nullptr;
  Request* last_ = nullptr;
  std::string control_;
  size_t control_sent_ = 0;
  bool control_turn_ = false;  // next() was of control_
  std::array<FrameHeader, kMessages> headers_;
  std::array<iovec, 3 * kMessages> pieces_;
  size_t piece_count_ = 0;
};

}  // namespace trireme::comm
