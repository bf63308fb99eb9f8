// The checker: runs Steps of all ranks symbolically and proves that they are the collective they claim to be.
// Instead of numbers a chunk holds an expression of contributions, "chunk 3 of rank 0 + chunk 3 of rank 1".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trireme/comm/collective/call.h"
#include "trireme/comm/collective/steps.h"

namespace trireme::comm {

struct Proof {
  int rounds = 0;                  // longest chain of messages that wait for each other
  std::vector<int> messages_sent;  // by each rank, unsegmented
};

// Throws Error, with rank and chunk, unless
//  - every send has its receive, of the same size, and what is read has been written before;
//  - no order of events ends with a rank that waits for ever;
//  - every rank ends with what the collective owes it, each contribution in it exactly once (at least once
//  for
//    a barrier);
//  - what several ranks end with was added in the same order, but for a + b against b + a, so that it is the
//    same bits.
// `pieces`: every chunk is cut into so many, each a message of its own, and a pair has one under way at a
// time. An engine that cuts messages and holds few segments beside their place must not wait in a circle
// either.
Proof check_steps(const Steps& steps, Collective collective, int root = 0, int pieces = 1);

// Payload bytes that each rank sends, where data chunk i has chunk_bytes[i]: what a transport has to count.
std::vector<size_t> bytes_sent(const Steps& steps, std::span<const size_t> chunk_bytes);

}  // namespace trireme::comm
