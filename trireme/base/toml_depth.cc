// See toml_depth.h. A key with dots is a run of parts, bare or in quotes, with dots between them. A number is
// one too, but has one dot.
#include "trireme/base/toml_depth.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "trireme/base/error.h"

namespace trireme {
namespace {

// The reader takes 256 values within one another, each of which may be under a key of so many parts.
constexpr int kMostDots = 16;

// The end of a string of TOML that begins at `begin` with one quote or three.
size_t end_of_string(std::string_view text, size_t begin) {
  const char quote = text[begin];
  const bool many_lines = text.substr(begin, 3) == std::string(3, quote);
  const std::string end(many_lines ? 3 : 1, quote);
  for (size_t i = begin + end.size(); i < text.size(); ++i) {
    if (text.substr(i, end.size()) == end) return i + end.size();
    if (text[i] == '\n' && !many_lines) return i;  // an error, which the reader tells
    if (text[i] == '\\' && quote == '"') ++i;
  }
  return text.size();
}

// May stand within a key, or between its parts.
bool continues_key(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || static_cast<unsigned char>(c) >= 0x80 || c == '_' ||
         c == '-' || c == '+' || c == ' ' || c == '\t';
}

}  // namespace

void check_toml_depth(std::string_view text, std::string_view file, std::string_view expected) {
  int dots = 0, line = 1;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '"' || text[i] == '\'') {
      const size_t end = std::min(end_of_string(text, i), text.size());
      line += static_cast<int>(std::count(text.begin() + i, text.begin() + end, '\n'));
      i = end;
      continue;
    }
    if (text[i] == '#') i = std::min(text.find('\n', i), text.size());
    if (i == text.size()) break;
    if (text[i] == '.') {
      if (++dots > kMostDots)
        throw_error("{}:{}: a key with more than {} dots; expected {}", file, line, kMostDots, expected);
    } else if (!continues_key(text[i])) {
      dots = 0;
    }
    line += text[i] == '\n';
    ++i;
  }
}

}  // namespace trireme
