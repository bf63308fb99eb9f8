// The one way in which anything is cut in parts: sizes differ by at most one, the larger parts first.
#pragma once

#include <cstdint>

namespace trireme {

struct Part {
  int64_t begin = 0;
  int64_t size = 0;
  int64_t end() const { return begin + size; }
  friend bool operator==(const Part&, const Part&) = default;
};

// Part `part` of `count` things cut in `parts`.
constexpr Part part_of(int64_t count, int64_t parts, int64_t part) {
  const int64_t each = count / parts, rest = count % parts;
  return {part * each + (part < rest ? part : rest), each + (part < rest ? 1 : 0)};
}

}  // namespace trireme
