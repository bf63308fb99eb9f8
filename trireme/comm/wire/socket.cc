// Sockets over the system's calls; see socket.h.
#include "trireme/comm/wire/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "trireme/base/error.h"

namespace trireme::comm {
namespace {

struct Endpoint {
  std::string host, port;
};

Endpoint parse_address(const std::string& address) {
  Endpoint endpoint{address, "0"};
  const size_t colon = address.rfind(':');
  const bool bare_v6 = !address.starts_with('[') && colon != std::string::npos && address.find(':') != colon;
  if (colon != std::string::npos && !bare_v6 && address.find(']', colon) == std::string::npos) {
    endpoint = {address.substr(0, colon), address.substr(colon + 1)};
  }
  if (endpoint.host.starts_with('[') && endpoint.host.ends_with(']')) {
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  }
  const bool digits =
      std::all_of(endpoint.port.begin(), endpoint.port.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (endpoint.host.empty() || endpoint.port.empty() || endpoint.port.size() > 5 || !digits ||
      std::stoi(endpoint.port) > 65535) {
    throw_error("address '{}' is not HOST:PORT, e.g. 127.0.0.1:29500 or [::1]:29500", address);
  }
  return endpoint;
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const std::string& address, int flags) {
  const Endpoint endpoint = parse_address(address);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(endpoint.host.c_str(), endpoint.port.c_str(), &hints, &found);
  if (error != 0) {
    throw_error("host '{}' has no address: {}; check the name, or give the number", endpoint.host,
                gai_strerror(error));
  }
  return Addresses(found, freeaddrinfo);
}

void set_option(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof value);  // a wish: nothing here breaks without it
}

template <typename Get>
std::string address_text(int socket, Get get) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (get(socket, reinterpret_cast<sockaddr*>(&storage), &length) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&storage), length, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "an unknown address";
  }
  return storage.ss_family == AF_INET6 ? fmt::format("[{}]:{}", host, port)
                                       : fmt::format("{}:{}", host, port);
}

// As many connections as the system lets wait: a port scan must not crowd out the ranks.
constexpr int kBacklog = 4096;

}  // namespace

void Descriptor::reset() {
  if (number_ >= 0) close(number_);
  number_ = -1;
}

Descriptor listen_on(const std::string& address) {
  const Addresses found = resolve(address, AI_PASSIVE);
  Descriptor listener(socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener) throw_error("cannot make a socket for {}: {}", address, std::strerror(errno));
  // Connections of a past job that linger on this port (TIME_WAIT) do not keep the next one from it.
  set_option(listener.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (bind(listener.get(), found->ai_addr, found->ai_addrlen) != 0 || listen(listener.get(), kBacklog) != 0) {
    throw_error(
        "cannot listen on {}: {}; is another job using the port, and is the address one of this host?",
        address, std::strerror(errno));
  }
  return listener;
}

Descriptor adopt_listener(int descriptor) {
  int listening = 0;
  socklen_t length = sizeof listening;
  if (getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) != 0 || listening == 0) {
    throw_error(
        "descriptor {} was to be a listening socket and is not; the launcher must keep it open for "
        "the rank that it starts",
        descriptor);
  }
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  return Descriptor(descriptor);
}

Descriptor accept_from(int listener) {
  return Descriptor(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

Descriptor start_connect(const std::string& address, int attempt) {
  const Addresses found = resolve(address, 0);
  std::vector<const addrinfo*> choices;
  for (const addrinfo* choice = found.get(); choice != nullptr; choice = choice->ai_next) {
    choices.push_back(choice);
  }
  const addrinfo& choice = *choices[static_cast<size_t>(attempt) % choices.size()];
  Descriptor connection(socket(choice.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!connection) throw_error("cannot make a socket for {}: {}", address, std::strerror(errno));
  if (connect(connection.get(), choice.ai_addr, choice.ai_addrlen) != 0 && errno != EINPROGRESS) {
    connection.reset();
  }
  return connection;
}

int connect_error(int socket) {
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error;
}

void tune_connection(int socket, double timeout_seconds) {
  const int seconds = std::max(4, static_cast<int>(timeout_seconds));
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  // Inside a host nothing is congested, and an algorithm that paces (bbr) costs a fifth of the bandwidth.
  // Buffers are left to the system, which sizes them by use: setting them turns that off, and the default
  // limit is below what a fast network needs.
  if (host_of(local_address(socket)) == host_of(remote_address(socket))) {
    constexpr std::string_view kSimplest = "reno";
    setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, kSimplest.data(), kSimplest.size());
  }
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, seconds / 4);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, seconds / 4);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  // Twice the timeout of an operation: its own error comes first, and says more.
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, seconds * 2000);
}

std::string local_address(int socket) {
  return address_text(socket, getsockname);
}

std::string remote_address(int socket) {
  return address_text(socket, getpeername);
}

std::string host_of(const std::string& address) {
  return address.substr(0, address.rfind(':'));
}

}  // namespace trireme::comm
