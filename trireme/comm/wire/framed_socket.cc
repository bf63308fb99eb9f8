// Frames over a socket; see framed_socket.h.
#include "trireme/comm/wire/framed_socket.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace trireme::comm {
namespace {

struct Header {
  uint32_t kind, bytes;
};

}  // namespace

void FramedSocket::send(Kind kind, std::string_view bytes) {
  const Header header{static_cast<uint32_t>(kind), static_cast<uint32_t>(bytes.size())};
  outgoing_.append(reinterpret_cast<const char*>(&header), sizeof header);
  outgoing_.append(bytes);
}

bool FramedSocket::flush() {
  while (open() && sent_ < outgoing_.size()) {
    const ssize_t sent =
        ::send(descriptor(), outgoing_.data() + sent_, outgoing_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return false;
    if (sent < 0) break;  // what the other side said before it went (why, perhaps) can still be read
    sent_ += static_cast<size_t>(sent);
  }
  outgoing_.clear();
  sent_ = 0;
  return true;
}

std::optional<FramedSocket::Frame> FramedSocket::receive() {
  while (open()) {
    Header header{};
    if (received_ < sizeof header) {
      incoming_.resize(sizeof header);
    } else {
      std::memcpy(&header, incoming_.data(), sizeof header);
      if (header.bytes > max_bytes_) break;
      incoming_.resize(sizeof header + header.bytes);
      if (received_ == incoming_.size()) {
        received_ = 0;
        return Frame{static_cast<Kind>(header.kind), incoming_.substr(sizeof header)};
      }
    }
    // No more than this frame: what follows belongs to the next exchange.
    const ssize_t got =
        recv(descriptor(), incoming_.data() + received_, incoming_.size() - received_, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return std::nullopt;
    if (got <= 0) break;
    received_ += static_cast<size_t>(got);
  }
  close();
  return std::nullopt;
}

}  // namespace trireme::comm
