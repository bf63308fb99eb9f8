// All algorithms of a collective side by side: what they send, and how long they should take.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "trireme/comm/collective/call.h"
#include "trireme/comm/collective/cost.h"
#include "trireme/comm/collective/emulated_link.h"
#include "trireme/comm/collective/formula.h"

namespace trireme::comm {

struct Compared {
  Algorithm algorithm;
  int rounds = 0;            // messages that wait for each other
  size_t total_bytes = 0;    // that all ranks send
  size_t busiest_bytes = 0;  // of the rank that sends most
  int fan_in = 0;            // ranks that one rank takes messages from, at most
  Formula form{};            // closed, of one segment
  double seconds = 0;        // by the cost model, in segments where it is given a size of them
};

// Of messages over such a link: bytes are on the wire of the sender, and arrive on that of the receiver the
// latency later, as comm/transport/emulated does it. Adding costs nothing.
Costs costs_over(const EmulatedLink& link);

// The same where only messages between hosts go over the link, each rank by a way of its own, and those
// inside of a host take no time. `hosts`: host number of each rank.
Costs costs_between_hosts(const EmulatedLink& link, std::vector<int> hosts);

// Closed forms of an all-reduce that no Steps here are of. With masters that are no ranks themselves and hold
// a part of the vector each, an endpoint takes one message of each rank after another.
Formula masters_formula(int ranks, int masters);
// No algorithm sends fewer bytes, or has fewer messages that wait for each other; none does both for every
// number of ranks.
Formula all_reduce_bound(int ranks);

// From the Steps of each that is of use on these hosts, for a vector of `bytes` (all_to_all: what a rank
// gives); in the order of the table of algorithms. `hosts`: host number of each rank.
std::vector<Compared> compared(Collective collective, std::span<const int> hosts, size_t bytes,
                               size_t segment_bytes, const Costs& costs);

}  // namespace trireme::comm
