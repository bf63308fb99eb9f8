// All-reduces in the units of the decks: vectors of n bytes, and seconds over the link that their examples
// use.
#pragma once

#include "trireme/comm/collective/call.h"
#include "trireme/comm/collective/formula.h"

namespace trireme::reproduce {

// As the Steps say that are run.
struct Sent {
  double rounds = 0, fan_in = 0;
  double in_all = 0, by_busiest = 0;  // vectors
};
Sent sent_by(comm::Algorithm algorithm, int ranks);

// 64 MiB over `office`, 0.5 ms and 1 Gbit/s, by closed forms: without segments.
inline constexpr double kExampleBytes = 64 << 20;
comm::Link example_link();
double example_seconds(const comm::Formula& form);
double example_seconds(comm::Algorithm algorithm, int ranks);

}  // namespace trireme::reproduce
