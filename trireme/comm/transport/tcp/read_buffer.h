// How much is read at once. Numbers are combined from this buffer, so it should stay in the second-level
// cache together with what they are combined into.
#pragma once

#include <cstddef>

namespace trireme::comm {

constexpr size_t kReadBufferBytes = 256 * 1024;

}  // namespace trireme::comm
