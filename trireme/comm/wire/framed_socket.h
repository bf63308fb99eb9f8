// Whole frames over a non-blocking socket, for the few and small exchanges of a rendezvous. A frame is a
// kind, a length and so many bytes; a length above the limit is refused before anything is allocated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "trireme/comm/wire/socket.h"

namespace trireme::comm {

class FramedSocket {
 public:
  enum class Kind : uint32_t { offer = 1, result = 2, failure = 3 };
  struct Frame {
    Kind kind;
    std::string bytes;
  };

  FramedSocket() = default;
  FramedSocket(Descriptor socket, size_t max_bytes) : socket_(std::move(socket)), max_bytes_(max_bytes) {}

  bool open() const { return static_cast<bool>(socket_); }
  int descriptor() const { return socket_.get(); }
  void close() { socket_.reset(); }

  // Queues a frame; flush() sends what the socket takes. True when nothing is left to send.
  void send(Kind kind, std::string_view bytes);
  bool flush();
  // The next frame, when it is complete. When the other side has gone or talks nonsense, closes; open()
  // tells.
  std::optional<Frame> receive();

 private:
  Descriptor socket_;
  size_t max_bytes_ = 0;
  std::string incoming_, outgoing_;
  size_t received_ = 0, sent_ = 0;
};

}  // namespace trireme::comm
