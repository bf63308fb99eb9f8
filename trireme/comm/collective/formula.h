// The published cost of an algorithm, in closed form; what the checker counts and the cost model predicts has
// to agree with it.
#pragma once

#include <cstddef>
#include <span>

#include "trireme/comm/collective/call.h"

namespace trireme::comm {

// What a message costs, and so what Steps cost: alpha + bytes * beta, plus gamma for every byte reduced.
struct Link {
  double alpha_seconds = 0;           // of a message, before its first byte
  double beta_seconds_per_byte = 0;   // of its bytes
  double gamma_seconds_per_byte = 0;  // of adding one byte to another
};

// In vectors of n bytes (all_to_all: n is what a rank gives), of one segment, all links alike.
struct Formula {
  int rounds;   // messages that wait for each other
  double sent;  // by the busiest rank
  // On the critical path, where a rank sends one message at a time (along trees: to all its peers at once).
  // Exact for powers of two; for other numbers of ranks, but for trees and for parts that are folded.
  int messages;
  double carried;
  double reduced;
};

// Throws Error if the table of algorithms does not have the pair.
Formula formula(Collective collective, Algorithm algorithm, int ranks, std::span<const int> hosts = {});

// messages α + carried n β + reduced n γ.
double formula_seconds(const Formula& formula, size_t bytes, const Link& link);

}  // namespace trireme::comm
