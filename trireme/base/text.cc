// Text helpers; see text.h.
#include "trireme/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "trireme/base/text.h"

namespace trireme {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
    }
  }
  return row[b.size()];
}

// The length of the valid UTF-8 sequence that `bytes` begins with; 0 when there is none.
size_t utf8_length(std::string_view bytes) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const uint8_t lead = byte(0);
  const size_t length = lead < 0x80                   ? 1
                        : lead >= 0xc2 && lead < 0xe0 ? 2
                        : lead >= 0xe0 && lead < 0xf0 ? 3
                        : lead >= 0xf0 && lead < 0xf5 ? 4
                                                      : 0;
  if (length == 0 || length > bytes.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and what lies beyond U+10FFFF.
  if (length == 3 && ((lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) >= 0xa0))) return 0;
  if (length == 4 && ((lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) >= 0x90))) return 0;
  return length;
}

}  // namespace

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(separator, begin)) != std::string_view::npos; begin = end + 1) {
    parts.emplace_back(text.substr(begin, end - begin));
  }
  parts.emplace_back(text.substr(begin));
  return parts;
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string suggestion(std::string_view word, std::span<const std::string> candidates) {
  const std::string near = nearest(word, candidates);
  return near.empty() ? fmt::format("known are {}", join(candidates, ", "))
                      : fmt::format("did you mean '{}'?", near);
}

std::string printable(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const size_t length = utf8_length(bytes);
    const auto first = static_cast<uint8_t>(bytes[0]);
    const bool control = (first < 0x20 && first != '\n' && first != '\t') || first == 0x7f ||
                         (length == 2 && first == 0xc2 && static_cast<uint8_t>(bytes[1]) < 0xa0);
    if (length == 0 || control)
      text += "\xef\xbf\xbd";
    else
      text += bytes.substr(0, length);
    bytes.remove_prefix(length == 0 ? 1 : length);
  }
  return text;
}

std::string format_bytes(size_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 5) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string divisors_near(int64_t value, int64_t wanted) {
  int64_t below = 1, above = value;
  for (int64_t d = 1; d * d <= value; ++d) {
    if (value % d != 0) continue;
    for (int64_t divisor : {d, value / d}) {
      if (divisor <= wanted) below = std::max(below, divisor);
      if (divisor >= wanted) above = std::min(above, divisor);
    }
  }
  return below == above ? fmt::format("{}", below) : fmt::format("{} or {}", below, above);
}

std::string multiples_near(int64_t factor, int64_t wanted) {
  const int64_t below = wanted / factor * factor;
  return below == 0 ? fmt::format("{}", factor) : fmt::format("{} or {}", below, below + factor);
}

}  // namespace trireme
