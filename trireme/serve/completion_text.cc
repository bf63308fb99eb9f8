// See completion_text.h.
#include "trireme/serve/completion_text.h"

#include <algorithm>
#include <array>
#include <utility>

#include "trireme/base/text.h"

namespace trireme::serve {
namespace {

// How many bytes at the end may be the beginning of a character.
size_t incomplete_bytes(std::string_view bytes) {
  for (size_t back = 1; back <= std::min<size_t>(3, bytes.size()); ++back) {
    const auto byte = static_cast<uint8_t>(bytes[bytes.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;  // not the first of a character
    const size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

// The longest end of the text with which one of the strings begins.
size_t bytes_of_begun(std::string_view text, const std::vector<std::string>& stops) {
  size_t most = 0;
  for (const std::string& stop : stops) {
    for (size_t size = std::min(stop.size() - 1, text.size()); size > most; --size) {
      if (text.ends_with(std::string_view(stop).substr(0, size))) most = size;
    }
  }
  return most;
}

}  // namespace

std::string CompletionText::up_to_stop() {
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, text_.find(stop));
  if (first == std::string::npos) return {};
  stopped_ = true;
  return std::exchange(text_, {}).substr(0, first);
}

std::string CompletionText::add(int32_t token) {
  if (stopped_ || token >= tokenizer_.vocab_size()) return {};
  bytes_ += tokenizer_.decode(std::array{token});
  const size_t complete = bytes_.size() - incomplete_bytes(bytes_);
  text_ += printable(std::string_view(bytes_).substr(0, complete));
  bytes_.erase(0, complete);
  std::string certain = up_to_stop();
  if (stopped_) return certain;
  const size_t begun = bytes_of_begun(text_, stops_);
  certain = text_.substr(0, text_.size() - begun);
  text_.erase(0, certain.size());
  return certain;
}

std::string CompletionText::finish() {
  if (stopped_) return {};
  text_ += printable(std::exchange(bytes_, {}));
  std::string certain = up_to_stop();
  return stopped_ ? certain : std::exchange(text_, {});
}

}  // namespace trireme::serve
