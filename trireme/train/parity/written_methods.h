// Methods of exchange written out for all ranks at once, in double precision: from the gradients of all
// ranks, as the mean has them, and what was kept before, to the sum and what is kept after.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/base/shape.h"
#include "trireme/exchange/choice.h"

namespace trireme::parity {

using Doubles = std::vector<double>;

struct Exchanged {
  std::string parameter;
  Shape shape;
  int64_t step = 0;                                  // from 1
  std::vector<Doubles> gradients;                    // of each rank
  std::map<std::string, std::vector<Doubles>> kept;  // of each rank, by what they are
  Doubles sum;                                       // what all agree on
  double raised = 0;  // by which share of themselves limits of size are raised (largest.h)
};

void run_written(const ExchangeChoice& choice, Exchanged& x);

}  // namespace trireme::parity
