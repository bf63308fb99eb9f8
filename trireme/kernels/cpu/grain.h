// How kernels split their work and align their workspace.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace trireme::cpu {

// Elements of an element-wise op that one thread takes at a time: enough to pay for waking a thread
// (a few microseconds), few enough that a thread's share stays in its second-level cache.
inline constexpr int64_t kElementGrain = 16384;

// The same for ops that work row by row.
inline int64_t row_grain(int64_t row_elements) {
  return std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, row_elements));
}

// Parts of a workspace begin at multiples of a cache line.
constexpr size_t align_up(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

}  // namespace trireme::cpu
