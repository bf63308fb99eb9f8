// A request and its answer, apart from the server that carries them.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme::http {

using Fields = std::map<std::string, std::string, std::less<>>;

struct Request {
  std::string method = "GET", path = "/";
  Fields query;    // of the address, decoded
  Fields headers;  // names in lower case
  Fields cookies;
  std::string body;  // as far as the server takes bodies
  enum class Body { kWhole, kTooLarge } has = Body::kWhole;

  std::string_view header(std::string_view name) const { return find(headers, name); }
  std::string_view argument(std::string_view name) const { return find(query, name); }
  std::string_view cookie(std::string_view name) const { return find(cookies, name); }

 private:
  static std::string_view find(const Fields& fields, std::string_view name) {
    const auto found = fields.find(name);
    return found == fields.end() ? std::string_view() : std::string_view(found->second);
  }
};

struct Answer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  // A body that comes in parts, in the place of `body`: called until it gives nothing, and it may take its
  // time. It is destroyed when all is sent, or the client has gone.
  std::function<std::optional<std::string>()> parts = nullptr;
};

}  // namespace trireme::http
