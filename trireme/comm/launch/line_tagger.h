// Cuts what a rank prints into whole lines, each with the rank in front, so that lines of several ranks can
// share a terminal.
#pragma once

#include <string>
#include <string_view>

namespace trireme::comm {

class LineTagger {
 public:
  // A line longer than this is passed on in parts, so that a rank that never ends one needs no memory.
  static constexpr size_t kMaxLineBytes = 64 * 1024;

  explicit LineTagger(std::string tag) : tag_(std::move(tag)) {}

  // The lines that are complete now, tagged; the rest is kept. "\r" of a progress bar does not end a line.
  std::string feed(std::string_view bytes);
  // What is left, as a line.
  std::string finish();

 private:
  std::string tag_;
  std::string rest_;
};

}  // namespace trireme::comm
