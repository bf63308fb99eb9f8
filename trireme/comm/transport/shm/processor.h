// Single instructions that the shared-memory paths hang on.
#pragma once

#include <cstddef>

namespace trireme::comm::shm {

inline constexpr size_t kLine = 64;  // bytes of a cache line

// Tells the core that this is a spin: it saves power and leaves the loop without a flush of the pipeline.
inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace trireme::comm::shm
