// Random plans of a space against what the planner says of them: no plan may beat its own bound on time or on
// memory, and none should be faster than the plan that a search finds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/planner/search.h"

namespace trireme::planner {

struct CheckOptions {
  Wish wish = {};
  Devices devices = Devices::kAll;
  int plans = 200;  // to simulate
  uint64_t seed = 1;
  int threads = 2;
  const std::atomic<bool>* stop = nullptr;
};

// A plan that took less than its bound.
struct BrokenBound {
  Choice choice;
  Plan plan;
  std::string of;  // "seconds" or "bytes"
  double bound = 0, simulated = 0;
};

struct CheckReport {
  int64_t simulated = 0, refused = 0, too_large = 0;
  std::vector<BrokenBound> broken;
  std::optional<Found> fastest;  // of the plans that fit
  // Of what was simulated to what was estimated: how far the estimates are off.
  double least_ratio = 0, median_ratio = 0, largest_ratio = 0;
  double median_tightness = 0;  // of bounds on time, as a share of what was simulated
};

// Meshes are drawn first and then one of their choices, so that meshes with few choices are seen as often.
// The same seed draws the same plans. Throws Error where there is no choice at all.
CheckReport check_plans(const Subject& subject, const Cluster& cluster, const CheckOptions& options);

}  // namespace trireme::planner
