// For tests that check a promised time: what a busy machine may take beyond it. A failure that is found by
// the wrong means (a timeout instead of a closed connection) must take longer than promise and slack
// together, so that the test still tells them apart.
#pragma once

#include <cstdlib>

namespace trireme {

// TRIREME_STRICT_TIMES=1, on a quiet machine, takes the promises at their word.
inline double slack_seconds() {
  return std::getenv("TRIREME_STRICT_TIMES") != nullptr ? 0 : 8;
}

}  // namespace trireme
