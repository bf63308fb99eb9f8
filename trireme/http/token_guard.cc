// See token_guard.h.
#include "trireme/http/token_guard.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "trireme/base/error.h"
#include "trireme/base/input_file.h"

namespace trireme::http {
namespace {

// "[::1]:8080" -> "::1", "name:80" -> "name"; "" where it is neither.
std::string without_port(std::string_view host) {
  const bool in_brackets = host.starts_with('[');
  const size_t end = in_brackets ? host.find(']') : host.find(':');
  if (end == std::string_view::npos) return in_brackets ? "" : std::string(host);
  const std::string_view after = host.substr(end + (in_brackets ? 1 : 0));
  if (!after.empty() && !after.starts_with(':')) return "";
  return std::string(host.substr(in_brackets ? 1 : 0, in_brackets ? end - 1 : end));
}

// Addresses in numbers are not looked up by name, so that nobody can have pointed them elsewhere.
bool is_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> address;
  return inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
}

}  // namespace

std::string new_token() {
  TRIREME_CHECK(sodium_init() >= 0);
  std::array<unsigned char, 16> bits;
  randombytes_buf(bits.data(), bits.size());
  std::string token;
  for (const unsigned char byte : bits) token += fmt::format("{:02x}", byte);
  return token;
}

bool is_loopback(const std::string& address) {
  return address == "::1" || address.starts_with("127.");
}

std::string checked_token(const std::string& token, std::string_view where) {
  constexpr size_t kLeastCharacters = 16;
  // What an address and a cookie can hold as it is.
  const bool plain =
      std::ranges::all_of(token, [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; });
  if (token.size() < kLeastCharacters || !plain)
    throw_error(
        "{}: this is no token; expected {} or more letters, digits, - and _, such as `openssl rand -hex 16` "
        "prints",
        where, kLeastCharacters);
  return token;
}

std::string read_token(const std::string& path) {
  constexpr size_t kMostBytes = 4096;
  const std::string text = read_input_file(path, kMostBytes, "a file with a token");
  return checked_token(text.substr(0, text.find_first_of("\r\n")), path);
}

bool TokenGuard::knows_host(const Request& request) const {
  const std::string name = without_port(request.header("host"));
  return name == "localhost" || is_address(name) || std::ranges::find(hosts_, name) != hosts_.end();
}

// In a time that does not tell how much of it was right.
bool TokenGuard::is_token(std::string_view given) const {
  return given.size() == token_.size() && sodium_memcmp(given.data(), token_.data(), token_.size()) == 0;
}

bool TokenGuard::has_bearer(const Request& request) const {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view given = request.header("authorization");
  return given.starts_with(kBearer) && is_token(given.substr(kBearer.size()));
}

}  // namespace trireme::http
