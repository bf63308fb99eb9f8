// Who is let in. A port of the loopback is open to every user of a host, and to every page in the browser of
// the right one, so that two things are looked at:
//
//   - a token that only the right ones know, 128 random bits or more.
//   - a Host that a name server can not have pointed here: a page elsewhere whose name is made to mean
//     127.0.0.1 (DNS rebinding) would come with its own. Ports are not looked at: ssh -L changes them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/http/request.h"

namespace trireme::http {

// Whether nobody but this machine reaches an address in numbers.
bool is_loopback(const std::string& address);

// 128 random bits, as 32 digits.
std::string new_token();
// The one in a file, whose first line it is. Throws Error where it is not 16 letters and digits or more.
std::string read_token(const std::string& path);
// The same of a token from `where`, whole.
std::string checked_token(const std::string& token, std::string_view where);

class TokenGuard {
 public:
  // `hosts`: names to answer to beside loopback names and addresses in numbers.
  TokenGuard(std::string token, std::vector<std::string> hosts)
      : token_(std::move(token)), hosts_(std::move(hosts)) {}

  const std::string& token() const { return token_; }
  bool knows_host(const Request& request) const;
  bool is_token(std::string_view given) const;
  // Whether it comes with `Authorization: Bearer` and the token.
  bool has_bearer(const Request& request) const;

 private:
  std::string token_;
  std::vector<std::string> hosts_;
};

}  // namespace trireme::http
