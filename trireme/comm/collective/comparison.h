// All algorithms of a collective side by side: what they send, and how long they should take.
#pragma once

#include <cstddef>
#include <vector>

#include "trireme/comm/collective/call.h"
#include "trireme/comm/collective/cost.h"
#include "trireme/comm/collective/emulated_link.h"

namespace trireme::comm {

struct Compared {
  Algorithm algorithm;
  int rounds = 0;            // messages that wait for each other
  size_t total_bytes = 0;    // that all ranks send
  size_t busiest_bytes = 0;  // of the rank that sends most
  int fan_in = 0;            // ranks that one rank takes messages from, at most
  double seconds = 0;        // by the cost model, in segments where it is given a size of them
};

// Of messages over such a link: bytes are on the wire of the sender, and arrive on that of the receiver the
// latency later, as comm/transport/emulated does it. Adding costs nothing.
Costs costs_over(const EmulatedLink& link);

// From the Steps of each, for a vector of `bytes`, on ranks of one host; in the order of the table of
// algorithms.
std::vector<Compared> compared(Collective collective, int ranks, size_t bytes, size_t segment_bytes,
                               const Costs& costs);

}  // namespace trireme::comm
