// How often this program has asked the heap for memory. Link allocation_count.cc into a test that promises
// that something does not: kernels while they run, the executor in the steady state.
#pragma once

#include <cstdint>

namespace trireme::testing {

int64_t allocation_count();

}  // namespace trireme::testing
