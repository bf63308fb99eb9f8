// See line_tagger.h.
#include "trireme/comm/launch/line_tagger.h"

#include <algorithm>

namespace trireme::comm {

std::string LineTagger::feed(std::string_view bytes) {
  std::string lines;
  while (!bytes.empty()) {
    const size_t line_end = bytes.find('\n');
    const size_t size =
        std::min(line_end == std::string_view::npos ? bytes.size() : line_end, kMaxLineBytes - rest_.size());
    rest_ += bytes.substr(0, size);
    bytes.remove_prefix(size);
    const bool ended = !bytes.empty() && bytes.front() == '\n';
    if (ended) bytes.remove_prefix(1);
    if (ended || rest_.size() == kMaxLineBytes) {
      lines += tag_ + rest_ + '\n';
      rest_.clear();
    }
  }
  return lines;
}

std::string LineTagger::finish() {
  if (rest_.empty()) return "";
  std::string line = tag_ + rest_ + '\n';
  rest_.clear();
  return line;
}

}  // namespace trireme::comm
