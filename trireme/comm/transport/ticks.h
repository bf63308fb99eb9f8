// The processor's own clock: a few nanoseconds to read where std::chrono takes some tens, which is as much as
// a small collective in shared memory.
#pragma once

#include <chrono>
#include <cstdint>

namespace trireme::comm {

inline uint64_t read_ticks() {
#if defined(__x86_64__)
  uint32_t low, high;
  asm volatile("rdtsc" : "=a"(low), "=d"(high));
  return uint64_t{high} << 32 | low;
#elif defined(__aarch64__)
  uint64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

// Says that this is a loop that waits for another core.
inline void relax() {
#if defined(__x86_64__)
  asm volatile("pause");
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Turns ticks into seconds by comparing both clocks since it was made.
class TickRate {
 public:
  TickRate() : ticks_(read_ticks()), time_(std::chrono::steady_clock::now()) {}

  double seconds(uint64_t ticks) const {
    std::chrono::duration<double> passed{};
    uint64_t counted = 0;
    do {  // a millisecond of comparison is exact to some 1e-4
      passed = std::chrono::steady_clock::now() - time_;
      counted = read_ticks() - ticks_;
    } while (passed.count() < 1e-3);
    return static_cast<double>(ticks) * passed.count() / static_cast<double>(counted);
  }

 private:
  uint64_t ticks_;
  std::chrono::steady_clock::time_point time_;
};

}  // namespace trireme::comm
