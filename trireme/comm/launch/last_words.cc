// See last_words.h. One byte for the kind, then the text, in one write, for which an empty pipe has room.
#include "trireme/comm/launch/last_words.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>

namespace trireme::comm {
namespace {

constexpr size_t kMaxBytes = 32 * 1024;  // half of what a pipe of Linux holds

int launcher_descriptor() {
  const char* const text = std::getenv(std::string(kLastWordsVariable).c_str());
  int descriptor = -1;
  if (text) std::from_chars(text, text + std::string_view(text).size(), descriptor);
  return descriptor > STDERR_FILENO ? descriptor : -1;
}

}  // namespace

bool tell_launcher(LastWords::Kind kind, std::string_view text) {
  const int descriptor = launcher_descriptor();
  if (descriptor < 0) return false;
  std::string words(1, static_cast<char>(kind));
  words += text.substr(0, kMaxBytes - words.size());
  return write(descriptor, words.data(), words.size()) == static_cast<ssize_t>(words.size());
}

LastWords read_last_words(int descriptor) {
  std::array<char, kMaxBytes> bytes;
  const ssize_t size = read(descriptor, bytes.data(), bytes.size());
  if (size < 2) return {};
  LastWords words{.text = std::string(bytes.data() + 1, static_cast<size_t>(size) - 1)};
  for (const LastWords::Kind kind : {LastWords::Kind::echo, LastWords::Kind::order, LastWords::Kind::again}) {
    if (bytes[0] == static_cast<char>(kind)) words.kind = kind;
  }
  return words;
}

}  // namespace trireme::comm
