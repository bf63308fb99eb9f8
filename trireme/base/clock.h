// Time that only goes forwards, told in seconds.
#pragma once

#include <chrono>

namespace trireme {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// So many seconds, to be added to a point in time.
inline Clock::duration clock_duration(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// What work() takes.
template <typename Work>
double seconds_of(const Work& work) {
  const Clock::time_point begin = Clock::now();
  work();
  return seconds_since(begin);
}

}  // namespace trireme
