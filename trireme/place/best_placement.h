// The cheapest placement, with a bound below which none can cost: variants, workers and routes in one integer
// program.
#pragma once

#include <vector>

#include "trireme/base/error.h"
#include "trireme/place/placement.h"

namespace trireme::place {

// What a placement may use, of what the workflow has.
struct Allowed {
  Variants variants;                     // kAnyVariant where open; empty: all open
  std::vector<bool> tiers;               // of workers; empty: all
  std::vector<std::vector<int>> rented;  // by op and class, at most; empty: all. Not where workers are shared
};

struct BestPlacement {
  Placement placement;
  double bound = 0;     // dollars per hour
  bool proven = false;  // nothing is cheaper
};

// The workers cannot take the rates.
class TooFewWorkers : public Error {
 public:
  using Error::Error;
};

// Throws TooFewWorkers, and Error where no combination of variants is accurate enough or nothing was found
// within `seconds`.
BestPlacement best_placement(const Workflow& workflow, const Allowed& allowed, double seconds);

}  // namespace trireme::place
