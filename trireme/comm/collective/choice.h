// How to run a call: what a chooser answers, and what is answered when there are no measurements to decide
// by.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "trireme/comm/collective/call.h"

namespace trireme::comm {

// What decides, for a call, which algorithm and segment size to use, and what it should cost. Pure: equal on
// all ranks. Where the call names an algorithm, only the rest is asked for. Without a chooser, fixed rules
// decide.
struct Choice {
  Algorithm algorithm = Algorithm::ring;
  size_t segment_bytes = 0;
  double predicted_seconds = 0;
};
using Chooser = std::function<Choice(const Call& call, int ranks, bool native_offered)>;

constexpr size_t kDefaultSegmentBytes = 256 * 1024;  // a few of them stay in a core's cache

// The transport's own way where it has one, few rounds for small vectors, few bytes for large ones, and of
// those few between hosts. `hosts`: host number of each rank; empty: all on one.
Choice fixed_choice(const Call& call, bool native_offered, std::span<const int> hosts = {});

}  // namespace trireme::comm
