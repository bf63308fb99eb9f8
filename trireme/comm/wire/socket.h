// Stream sockets and the few things that are done with them. All sockets made here are non-blocking and are
// not inherited by programs that the process starts. Addresses are text, "10.0.0.3:4000" or "[fe80::1]:4000".
#pragma once

#include <string>
#include <utility>

#include "trireme/base/clock.h"

namespace trireme::comm {

using trireme::Clock;  // of all deadlines

// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { reset(); }
  void reset();
  int release() { return std::exchange(number_, -1); }
  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

// Listens on exactly this address; port 0 (or none) takes a free one. Throws Error, as all below.
Descriptor listen_on(const std::string& address);
// A listening socket that was inherited: checked, and made like those of listen_on().
Descriptor adopt_listener(int descriptor);

// The next connection of a listener, or none when nobody is waiting.
Descriptor accept_from(int listener);

// Begins to connect; the socket is writable when it is decided, and connect_error() then says how. A name
// may have several addresses: `attempt` (0, 1, …) goes around them. None when the attempt failed at once.
Descriptor start_connect(const std::string& address, int attempt);
int connect_error(int socket);  // an errno, 0 when connected

// For a connection that carries messages: small ones leave at once, and a silent cut of the link is noticed
// after about `timeout_seconds`.
void tune_connection(int socket, double timeout_seconds);

std::string local_address(int socket);
std::string remote_address(int socket);
std::string host_of(const std::string& address);  // "10.0.0.3", brackets kept

}  // namespace trireme::comm
