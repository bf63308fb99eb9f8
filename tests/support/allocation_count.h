// How often this program has asked the heap for memory: kernels must not, see trireme/kernels/kernel.h.
#pragma once

#include <cstdint>

namespace trireme {

int64_t allocation_count();

}  // namespace trireme
