// In the place of http_server.cc where libmicrohttpd was not found.
#include "trireme/base/error.h"
#include "trireme/http/http_server.h"

namespace trireme::http {

struct HttpServer::State {};

HttpServer::HttpServer(const ServerOptions&, std::function<Answer(const Request&, int)>) {
  throw_error(
      "this trireme was built without libmicrohttpd, by which it serves; install it (Debian: libmicrohttpd-dev, or "
      "scripts/install_packages.sh) and build again");
}
HttpServer::~HttpServer() = default;
void HttpServer::close_door() {}
bool HttpServer::wait_until_idle(double) {
  return true;
}
int HttpServer::port() const {
  return 0;
}

}  // namespace trireme::http
