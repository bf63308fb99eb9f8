// See input_file.h.
#include "trireme/base/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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

}  // namespace

void expect_regular_file(const std::string& path, std::string_view expected) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) expect_regular(status, path, expected);
}

std::string read_input_file(const std::string& path, size_t most_bytes, std::string_view expected) {
  // Opening a pipe waits for somebody to write to it, unless it is told not to.
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

}  // namespace trireme
