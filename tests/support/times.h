// For tests that look at times. Cores are shared: a test either counts its own processor time, or leaves a
// promised time room for what a busy machine may take beyond it. A failure that is found by the wrong means (a
// timeout instead of a closed connection) must take longer than promise and slack together, so that the test
// still tells them apart.
#pragma once

#include <time.h>

#include <cstdlib>

namespace trireme {

// TRIREME_STRICT_TIMES=1, on a quiet machine, takes the promises at their word.
inline bool times_are_strict() {
  return std::getenv("TRIREME_STRICT_TIMES") != nullptr;
}
inline double slack_seconds() {
  return times_are_strict() ? 0 : 8;
}

// What this thread has computed so far.
inline double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace trireme
