// What became of a drill.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/chaos/drill.h"

namespace trireme::chaos {

struct Result {
  ChosenDrill drill;
  uint64_t seed = 0;
  std::string broken;  // how the promise was broken; "": it was kept
  // One for each fault that was struck, in seconds, where the drill measures it.
  std::vector<double> detections, recoveries;
  int64_t steps_again = 0;  // the most that a loss cost
  double seconds = 0;       // that the drill took

  bool kept() const { return broken.empty(); }
};

}  // namespace trireme::chaos
