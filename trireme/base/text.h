// Small helpers for text that people read and write.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

std::vector<std::string> split(std::string_view text, char separator);
std::string join(std::span<const std::string> parts, std::string_view separator);

// The candidate with the smallest edit distance to `word`, or "" when none is close enough to be a
// plausible misspelling. Used by every "unknown …, did you mean …?" message.
std::string nearest(std::string_view word, std::span<const std::string> candidates);
// "did you mean 'zero1'?", or "known are …" where none is close.
std::string suggestion(std::string_view word, std::span<const std::string> candidates);

// The text as a terminal may show it: bytes that are not valid UTF-8, and control characters but for newline
// and tab, become U+FFFD. For text that nobody wrote, such as the output of a model.
std::string printable(std::string_view bytes);

// "1.5 GiB", "12.0 KiB", "17 B".
std::string format_bytes(size_t bytes);

// Numbers that would have fitted, for "try 64 or 128": the divisors of `value`, or the multiples of `factor`,
// that lie nearest to `wanted`.
std::string divisors_near(int64_t value, int64_t wanted);
std::string multiples_near(int64_t factor, int64_t wanted);

}  // namespace trireme
