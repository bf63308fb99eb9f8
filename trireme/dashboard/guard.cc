// See guard.h.
#include "trireme/dashboard/guard.h"

#include <fmt/format.h>

namespace trireme::dashboard {

std::optional<Answer> Guard::stops(const Request& request, int port) const {
  if (!guard_.knows_host(request))
    return Answer{
        .status = 403,
        .body =
            "This host name is not known here. Use the address that `trireme dashboard` printed, or start it "
            "with --allow-host NAME.\n"};
  if (request.method != "GET" && request.method != "HEAD")
    return Answer{
        .status = 405, .body = "Only GET and HEAD are answered.\n", .headers = {{"Allow", "GET, HEAD"}}};
  const std::string cookie = fmt::format("trireme_{}", port);
  if (guard_.is_token(request.cookie(cookie)) || guard_.has_bearer(request)) return std::nullopt;
  if (request.path == "/" && guard_.is_token(request.argument("token")))
    return Answer{.status = 303,
                  .body = "",
                  .headers = {{"Location", "/"},
                              {"Set-Cookie", fmt::format("{}={}; Path=/; HttpOnly; SameSite=Strict", cookie,
                                                         guard_.token())}}};
  return Answer{
      .status = 403,
      .body = "No token, or not the right one. Open the address that `trireme dashboard` printed.\n"};
}

}  // namespace trireme::dashboard
