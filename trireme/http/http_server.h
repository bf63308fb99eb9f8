// A server of HTTP/1.1 on some address, by libmicrohttpd. What is answered is its handler's.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "trireme/http/request.h"

namespace trireme::http {

struct ServerOptions {
  std::string address = "127.0.0.1";  // IPv4 or IPv6, in numbers
  int port = 0;                       // 0: any that is free
  unsigned connections = 256;         // at most
  size_t body_bytes = 0;              // of a request, at most; what is larger is not kept (Request::has)
  // Who calls the handler. kOne: one thread, for answers that are at hand. kEach: a thread for each
  // connection, for answers that are waited for, `answer_seconds` at most.
  enum class Threads { kOne, kEach } threads = Threads::kOne;
  unsigned answer_seconds = 0;
};

class HttpServer {
 public:
  // Throws Error where the address can not be listened on, or this
  // build has no libmicrohttpd.
  HttpServer(const ServerOptions& options, std::function<Answer(const Request&, int port)> answer);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  // From now on nobody can connect; connections that there are go on.
  void close_door();
  // Waits until no request is under way, so many seconds at most; says whether that is so. Answers that are
  // not sent when the server ends are cut off.
  bool wait_until_idle(double seconds);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::http
