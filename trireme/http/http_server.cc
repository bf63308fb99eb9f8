// See http_server.h. Limits are set on all that a client decides: connections, memory of each, and how long
// one may be silent.
#include "trireme/http/http_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <tuple>
#include <utility>

#include "trireme/base/error.h"

namespace trireme::http {
namespace {

constexpr unsigned kSilentSeconds = 60;
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

// What the library keeps of a request that is under way.
struct Upload {
  std::string body;
  Request::Body has = Request::Body::kWhole;
};

// A body in parts, as the library asks for it: by so many bytes.
struct Parts {
  std::function<std::optional<std::string>()> next;
  std::string part = {};
  size_t sent = 0;  // of the part

  static ssize_t read(void* self, uint64_t, char* to, size_t most) {
    auto& parts = *static_cast<Parts*>(self);
    try {
      while (parts.sent == parts.part.size()) {
        std::optional<std::string> part = parts.next();
        if (!part) return MHD_CONTENT_READER_END_OF_STREAM;
        parts.part = std::move(*part);
        parts.sent = 0;
      }
    } catch (const std::exception&) {  // the status is sent: all that is left is to break off
      return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    const size_t count = std::min(most, parts.part.size() - parts.sent);
    std::memcpy(to, parts.part.data() + parts.sent, count);
    parts.sent += count;
    return static_cast<ssize_t>(count);
  }
  static void free(void* self) { delete static_cast<Parts*>(self); }
};

MHD_Response* response_of(Answer& answer) {
  constexpr size_t kBlock = 4096;
  if (!answer.parts)
    return MHD_create_response_from_buffer(answer.body.size(), answer.body.data(), MHD_RESPMEM_MUST_COPY);
  auto parts = std::make_unique<Parts>(Parts{std::move(answer.parts)});
  MHD_Response* response =
      MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, kBlock, Parts::read, parts.get(), Parts::free);
  if (response) std::ignore = parts.release();
  return response;
}

}  // namespace

struct HttpServer::State {
  ServerOptions options;
  std::function<Answer(const Request&, int)> answer;
  int port = 0, socket = -1;
  bool door_closed = false;
  MHD_Daemon* daemon = nullptr;
  std::mutex mutex;
  std::condition_variable changed;
  int under_way = 0;  // requests

  void add_under_way(int more) {
    const std::scoped_lock lock(mutex);
    under_way += more;
    changed.notify_all();
  }

  void send(MHD_Connection* connection, Answer& answered, MHD_Result& result) const {
    MHD_Response* response = response_of(answered);
    result = MHD_NO;
    if (!response) return;
    MHD_add_response_header(response, "Content-Type", answered.type.c_str());
    for (const auto& [name, value] : answered.headers)
      MHD_add_response_header(response, name.c_str(), value.c_str());
    result = MHD_queue_response(connection, static_cast<unsigned>(answered.status), response);
    MHD_destroy_response(response);
  }

  MHD_Result reply(MHD_Connection* connection, const char* url, const char* method, Upload upload) const {
    const Request request{.method = method,
                          .path = url,
                          .query = values_of(connection, MHD_GET_ARGUMENT_KIND, false),
                          .headers = values_of(connection, MHD_HEADER_KIND, true),
                          .cookies = values_of(connection, MHD_COOKIE_KIND, false),
                          .body = std::move(upload.body),
                          .has = upload.has};
    // Silence is ours while it waits for the answer.
    if (options.answer_seconds > 0)
      MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT,
                                kSilentSeconds + options.answer_seconds);
    Answer answered;
    try {
      answered = answer(request, port);
    } catch (const std::exception& error) {  // no exception may go through the library, which is C
      answered = {.status = 500, .body = std::string(error.what()) + "\n"};
    }
    MHD_Result result = MHD_NO;
    send(connection, answered, result);
    return result;
  }

  // The first call of a request brings its headers, the others parts of a body, and the last nothing more.
  static MHD_Result handle(void* self, MHD_Connection* connection, const char* url, const char* method,
                           const char*, const char* data, size_t* bytes, void** seen) {
    auto& state = *static_cast<State*>(self);
    if (!*seen) {
      *seen = new Upload;
      state.add_under_way(1);
      return MHD_YES;
    }
    auto& upload = *static_cast<Upload*>(*seen);
    if (*bytes == 0) return state.reply(connection, url, method, std::move(upload));
    if (upload.body.size() + *bytes > state.options.body_bytes) {
      upload = {.body = {}, .has = Request::Body::kTooLarge};
    } else if (upload.has == Request::Body::kWhole) {
      upload.body.append(data, *bytes);
    }
    *bytes = 0;
    return MHD_YES;
  }
  static void completed(void* self, MHD_Connection* connection, void** seen, MHD_RequestTerminationCode) {
    if (!*seen) return;
    delete static_cast<Upload*>(*seen);
    *seen = nullptr;
    auto& state = *static_cast<State*>(self);
    state.add_under_way(-1);
    if (state.options.answer_seconds > 0)
      MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, kSilentSeconds);
  }
};

HttpServer::HttpServer(const ServerOptions& options, std::function<Answer(const Request&, int)> answer)
    : state_(std::make_unique<State>()) {
  state_->options = options;
  state_->answer = std::move(answer);
  state_->socket = listen_on(options, state_->port);
  const auto how = options.threads == ServerOptions::Threads::kOne
                       ? unsigned{MHD_USE_EPOLL}
                       : unsigned{MHD_USE_POLL} | MHD_USE_THREAD_PER_CONNECTION;
  state_->daemon = MHD_start_daemon(
      MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_ITC | how, 0, nullptr, nullptr, State::handle, state_.get(),
      MHD_OPTION_LISTEN_SOCKET, state_->socket, MHD_OPTION_CONNECTION_LIMIT, options.connections,
      MHD_OPTION_CONNECTION_TIMEOUT, kSilentSeconds, MHD_OPTION_CONNECTION_MEMORY_LIMIT, kConnectionBytes,
      MHD_OPTION_NOTIFY_COMPLETED, State::completed, state_.get(), MHD_OPTION_END);
  if (state_->daemon) return;
  ::close(state_->socket);
  throw_error("cannot start a server on {}: {}", options.address, std::strerror(errno));
}

void HttpServer::close_door() {
  if (state_->door_closed) return;
  state_->door_closed = true;
  MHD_quiesce_daemon(state_->daemon);
  ::shutdown(state_->socket, SHUT_RDWR);  // it is closed when no thread can look at it any more
}

bool HttpServer::wait_until_idle(double seconds) {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, std::chrono::duration<double>(seconds),
                                  [&] { return state_->under_way == 0; });
}

HttpServer::~HttpServer() {
  MHD_stop_daemon(state_->daemon);
  if (state_->door_closed) ::close(state_->socket);
}

int HttpServer::port() const {
  return state_->port;
}

}  // namespace trireme::http
