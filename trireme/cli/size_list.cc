// See size_list.h.
#include "trireme/cli/size_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme::cli {
namespace {

constexpr std::string_view kUnits = "KMG";
constexpr size_t kMostBytes = size_t{16} << 30;

size_t parse_size(const std::string& text) {
  size_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data(), end, number);
  const size_t unit = rest == end ? 0 : kUnits.find(*rest) + 1;  // 0 too for what is no unit
  const bool whole = rest + (unit > 0 ? 1 : 0) == end;
  if (problem != std::errc() || !whole || number == 0 || number > (kMostBytes >> (10 * unit))) {
    throw_error("'{}' is not a size; expected bytes from 1 to {}, such as 512, 4K or 64M", text,
                size_text(kMostBytes));
  }
  return number << (10 * unit);
}

}  // namespace

std::vector<size_t> parse_sizes(const std::string& text) {
  std::vector<size_t> sizes;
  for (const std::string& part : split(text, ',')) {
    const std::vector<std::string> ends = split(part, '-');
    const size_t first = parse_size(ends.front());
    const size_t last = ends.size() == 1 ? first : parse_size(ends.back());
    if (ends.size() > 2 || first > last) throw_error("'{}' is not a range of sizes, such as 8-64M", part);
    for (size_t bytes = first; bytes < last; bytes *= 4) sizes.push_back(bytes);
    sizes.push_back(last);
  }
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

std::string size_text(size_t bytes) {
  size_t unit = 0;
  while (unit < kUnits.size() && bytes > 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{}{}", bytes, unit == 0 ? std::string_view() : kUnits.substr(unit - 1, 1));
}

}  // namespace trireme::cli
