// What became of a drill.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/chaos/drill.h"
#include "trireme/chaos/resources.h"

namespace trireme::chaos {

struct Result {
  ChosenDrill drill;
  uint64_t seed = 0;
  std::string broken;  // how the promise was broken; "": it was kept
  // One for each fault that was struck, in seconds, where the drill measures it.
  std::vector<double> detections, recoveries;
  int struck = 0,
      found = 0;            // of faults that may harm nobody: how many there were, and of how many word came
  int64_t steps_again = 0;  // the most that a loss cost
  std::vector<JobResources> resources = {};  // of a soak, before each loss
  double seconds = 0;                        // that the drill took

  bool kept() const { return broken.empty(); }
};

// The value below which this share of them lies; 0 of none.
double percentile(std::vector<double> values, double share);

}  // namespace trireme::chaos
