// A request and its answer, apart from the server that carries them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme::dashboard {

using Fields = std::map<std::string, std::string, std::less<>>;

struct Request {
  std::string method = "GET", path = "/";
  Fields query;    // of the address, decoded
  Fields headers;  // names in lower case
  Fields cookies;

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
};

}  // namespace trireme::dashboard
