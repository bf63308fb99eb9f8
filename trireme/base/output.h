// Printing that never fails. The reader of a run's output may go (Ctrl-C ends the `tee` behind it, a terminal
// is closed, a disk is full), and the run has more to lose than a line: what can not be written is dropped.
// fmt::print throws then.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace trireme {

template <typename... Args>
void say(std::FILE* out, fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  std::fwrite(text.data(), 1, text.size(), out);
}

template <typename... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  say(stdout, format, std::forward<Args>(args)...);
}

}  // namespace trireme
