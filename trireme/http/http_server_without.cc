// In the place of http_server.cc where libmicrohttpd was not found.
#include "trireme/base/error.h"
#include "trireme/dashboard/http_server.h"

namespace trireme::dashboard {

struct HttpServer::State {};

HttpServer::HttpServer(const ServerOptions&, std::function<Answer(const Request&, int)>) {
  throw_error(
      "this trireme was built without libmicrohttpd, which serves the page; install it (Debian: libmicrohttpd-dev, or "
      "scripts/install_packages.sh) and build again");
}
HttpServer::~HttpServer() = default;
int HttpServer::port() const {
  return 0;
}

}  // namespace trireme::dashboard
