// See http_server.h. Limits are set on all that a client decides: connections, memory of each, and how long
// one may be silent.
#include "trireme/dashboard/http_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "trireme/base/error.h"

namespace trireme::dashboard {
namespace {

constexpr unsigned kMostConnections = 256, kSilentSeconds = 60;
constexpr size_t kConnectionBytes = size_t{64} << 10;  // of its headers

// A socket that listens, and its port. Ours rather than the library's: that one says nothing of what went
// wrong.
int listen_on(const ServerOptions& options, int& port) {
  sockaddr_storage address{};
  socklen_t size = 0;
  auto* four = reinterpret_cast<sockaddr_in*>(&address);
  auto* six = reinterpret_cast<sockaddr_in6*>(&address);
  if (inet_pton(AF_INET, options.address.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(static_cast<uint16_t>(options.port));
    size = sizeof *four;
  } else if (inet_pton(AF_INET6, options.address.c_str(), &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(static_cast<uint16_t>(options.port));
    size = sizeof *six;
  } else {
    throw_error(
        "'{}' is not an address to listen on; expected one in numbers, such as 127.0.0.1, ::1 or 0.0.0.0",
        options.address);
  }
  const int socket = ::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int yes = 1;
  if (socket >= 0) ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (socket < 0 || ::bind(socket, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(socket, 64) != 0) {
    const int error = errno;
    if (socket >= 0) ::close(socket);
    throw_error("cannot listen on {} port {}: {}; choose another with --port", options.address, options.port,
                std::strerror(error));
  }
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  port = ntohs(address.ss_family == AF_INET ? four->sin_port : six->sin6_port);
  return socket;
}

struct Collected {
  Fields* fields;
  bool lower;
};

MHD_Result collect(void* to, MHD_ValueKind, const char* name, const char* value) {
  const auto& [fields, lower] = *static_cast<Collected*>(to);
  std::string key = name;
  if (lower)
    std::ranges::transform(key, key.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  fields->emplace(std::move(key), value ? value : "");
  return MHD_YES;
}

Fields values_of(MHD_Connection* connection, MHD_ValueKind kind, bool lower) {
  Fields fields;
  Collected collected{&fields, lower};
  MHD_get_connection_values(connection, kind, collect, &collected);
  return fields;
}

}  // namespace

struct HttpServer::State {
  std::function<Answer(const Request&, int)> answer;
  int port = 0;
  MHD_Daemon* daemon = nullptr;

  static MHD_Result handle(void* self, MHD_Connection* connection, const char* url, const char* method,
                           const char*, const char*, size_t* body_bytes, void** seen) {
    auto& state = *static_cast<State*>(self);
    // The first call of a request brings its headers, the others parts of a body, which nobody wants.
    if (!*seen) {
      *seen = self;
      return MHD_YES;
    }
    if (*body_bytes > 0) {
      *body_bytes = 0;
      return MHD_YES;
    }
    const Request request{.method = method,
                          .path = url,
                          .query = values_of(connection, MHD_GET_ARGUMENT_KIND, false),
                          .headers = values_of(connection, MHD_HEADER_KIND, true),
                          .cookies = values_of(connection, MHD_COOKIE_KIND, false)};
    Answer answer;
    try {
      answer = state.answer(request, state.port);
    } catch (const std::exception& error) {  // no exception may go through the library, which is C
      answer = {.status = 500, .body = std::string(error.what()) + "\n"};
    }
    MHD_Response* response =
        MHD_create_response_from_buffer(answer.body.size(), answer.body.data(), MHD_RESPMEM_MUST_COPY);
    if (!response) return MHD_NO;
    MHD_add_response_header(response, "Content-Type", answer.type.c_str());
    for (const auto& [name, value] : answer.headers)
      MHD_add_response_header(response, name.c_str(), value.c_str());
    const MHD_Result queued = MHD_queue_response(connection, static_cast<unsigned>(answer.status), response);
    MHD_destroy_response(response);
    return queued;
  }
};

HttpServer::HttpServer(const ServerOptions& options, std::function<Answer(const Request&, int)> answer)
    : state_(std::make_unique<State>()) {
  state_->answer = std::move(answer);
  const int socket = listen_on(options, state_->port);
  state_->daemon =
      MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL, 0, nullptr, nullptr, State::handle,
                       state_.get(), MHD_OPTION_LISTEN_SOCKET, socket, MHD_OPTION_CONNECTION_LIMIT,
                       kMostConnections, MHD_OPTION_CONNECTION_TIMEOUT, kSilentSeconds,
                       MHD_OPTION_CONNECTION_MEMORY_LIMIT, kConnectionBytes, MHD_OPTION_END);
  if (state_->daemon) return;
  ::close(socket);
  throw_error("cannot start a server on {}: {}", options.address, std::strerror(errno));
}

HttpServer::~HttpServer() {
  MHD_stop_daemon(state_->daemon);
}

int HttpServer::port() const {
  return state_->port;
}

}  // namespace trireme::dashboard
