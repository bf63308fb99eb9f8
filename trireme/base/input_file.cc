// See input_file.h.
#include "trireme/base/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <string>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme {
namespace {

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

void expect_regular(const struct stat& status, const std::string& path, std::string_view expected) {
  if (!S_ISREG(status.st_mode))
    throw_error("{}: this is {}; a file expected: {}", path, kind_of(status.st_mode), expected);
}

// Closes itself.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

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

// A key with dots is a run of parts, bare or in quotes, with dots between them. A number is one too, but has
// one dot. Whether a character may stand within a key, or between its parts.
bool continues_key(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || static_cast<unsigned char>(c) >= 0x80 || c == '_' ||
         c == '-' || c == '+' || c == ' ' || c == '\t';
}

}  // namespace

void expect_regular_file(const std::string& path, std::string_view expected) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) expect_regular(status, path, expected);
}

std::string read_input_file(const std::string& path, size_t most_bytes, std::string_view expected) {
  // Opening a pipe waits for a writer, unless O_NONBLOCK is set.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat status {};
  if (file.number < 0 || ::fstat(file.number, &status) != 0)
    throw_error("{}: cannot be read: {}; {} expected", path, std::strerror(errno), expected);
  expect_regular(status, path, expected);
  std::string text;
  // Files of /proc have no size, so that the limit is held as the bytes come.
  for (;;) {
    const size_t had = text.size();
    text.resize(had + (size_t{1} << 16));
    ssize_t got = 0;
    do got = ::read(file.number, text.data() + had, text.size() - had);
    while (got < 0 && errno == EINTR);
    if (got < 0) throw_error("{}: cannot be read: {}; {} expected", path, std::strerror(errno), expected);
    text.resize(had + static_cast<size_t>(got));
    if (text.size() > most_bytes)
      throw_error("{}: larger than {}; {} expected", path, format_bytes(most_bytes), expected);
    if (got == 0) return text;
  }
}

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
