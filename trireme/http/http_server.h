// A server of HTTP/1.1 on some address, by libmicrohttpd: one thread that answers GET and HEAD. What is
// answered is its handler's.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "trireme/dashboard/request.h"

namespace trireme::dashboard {

struct ServerOptions {
  std::string address = "127.0.0.1";  // IPv4 or IPv6, in numbers
  int port = 0;                       // 0: any that is free
};

class HttpServer {
 public:
  // `answer` is called by the server's thread. Throws Error where the address can not be listened on, or this
  // build has no libmicrohttpd.
  HttpServer(const ServerOptions& options, std::function<Answer(const Request&, int port)> answer);
  ~HttpServer();  // ends when answers under way are sent
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::dashboard
