// What failures leave of a long run: with checkpoints at an interval, and everybody starting again from the
// last one when a device fails.
#pragma once

#include <string_view>

namespace trireme::sim {

struct Failures {
  double device_mtbf_seconds = 0;  // mean time between failures of one device; failures are independent
  double checkpoint_seconds = 0;   // in which nobody computes
  double detect_seconds = 0;       // until the others know
  double restart_seconds = 0;      // from then until they compute again
};
// "mtbf=50000h,checkpoint=30s,detect=10s,restart=5min": mtbf and checkpoint are needed. Throws Error for what
// is none of it.
Failures parse_failures(std::string_view text);

struct Goodput {
  double mtbf_seconds = 0;      // of all devices together
  double interval_seconds = 0;  // of work between checkpoints
  double share = 0;             // of all time, that lasts as work
};

// With the interval of Young and Daly, √(2 · checkpoint · MTBF), or one that is given. The time that an
// interval takes on average is exact for failures at a constant rate, which may also come while a restart or
// a checkpoint goes on.
Goodput goodput_of(const Failures& failures, int devices, double interval_seconds = 0);

}  // namespace trireme::sim
