// Who may see the runs: who has the token, by a cookie that the first request gets for the token in the
// address that the command prints, or as `Authorization: Bearer`; and who calls this host by a name that it
// has (http/token_guard.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/http/request.h"
#include "trireme/http/token_guard.h"

namespace trireme::dashboard {

using http::Answer;
using http::Request;

class Guard {
 public:
  // `hosts`: names to answer to beside loopback names and addresses in numbers.
  Guard(std::string token, std::vector<std::string> hosts) : guard_(std::move(token), std::move(hosts)) {}

  // What a request gets that may see nothing, or that brings its token in the address; nothing where it may
  // go on. `port` is the server's, and part of the cookie's name: a browser shares the cookies of a host
  // between all of its ports.
  std::optional<Answer> stops(const Request& request, int port) const;

 private:
  http::TokenGuard guard_;
};

}  // namespace trireme::dashboard
