// Who may see the runs. A port of the loopback is open to every user of a host, and to every page in the
// browser of the right one, so that two things are asked for:
//
//   - the token, 128 random bits in the address that the command prints. The first request turns it into a
//     cookie; programs send it as `Authorization: Bearer`.
//   - a Host that a name server can not have pointed here: a page elsewhere whose name is made to mean
//     127.0.0.1 (DNS rebinding) would come with its own. Ports are not looked at: ssh -L changes them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/dashboard/request.h"

namespace trireme::dashboard {

// 128 random bits, as 32 digits.
std::string new_token();
// The one in a file, whose first line it is. Throws Error where it is not 16 letters and digits or more.
std::string read_token(const std::string& path);

class Guard {
 public:
  // `hosts`: names to answer to beside loopback names and addresses in numbers.
  Guard(std::string token, std::vector<std::string> hosts)
      : token_(std::move(token)), hosts_(std::move(hosts)) {}

  // What a request gets that may see nothing, or that brings its token in the address; nothing where it may
  // go on. `port` is the server's, and part of the cookie's name: a browser shares the cookies of a host
  // between all of its ports.
  std::optional<Answer> stops(const Request& request, int port) const;

 private:
  bool knows_host(std::string_view host) const;
  bool is_token(std::string_view given) const;

  std::string token_;
  std::vector<std::string> hosts_;
};

}  // namespace trireme::dashboard
