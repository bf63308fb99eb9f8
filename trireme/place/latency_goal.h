// The cheapest placement whose simulated requests are answered in time.
#pragma once

#include <cstdint>

#include "trireme/place/best_placement.h"
#include "trireme/place/queues.h"

namespace trireme::place {

// Requests that are simulated.
struct Requests {
  int64_t count = 20000;
  double variation = 1;  // see arrival_times()
  uint64_t seed = 1;
};
QueueReport simulate_requests(const Workflow& workflow, const PlacedFlow& placed, const Requests& requests);

struct InTime {
  double load = 0;  // of the workers, at most; what the workflow allows, or less
  BestPlacement best;
};
// Loads are lowered step by step until 99 % of the requests are answered within `p99` seconds: less load
// costs more. The placement is the cheapest of its load, within `seconds` for each. Throws Error where no
// load is low enough, and as best_placement() does.
InTime best_in_time(const Workflow& workflow, double p99, const Requests& requests, double seconds);

}  // namespace trireme::place
