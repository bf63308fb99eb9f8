// What is said of a plan that was found: how well it uses the devices, what a run of it costs, and where
// another one loses its time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/planner/search.h"
#include "trireme/sim/goodput.h"

namespace trireme::planner {

struct Figures {
  double samples_per_second = 0;
  // Of the devices' peak: FLOPs that the model asks for (0 where it has no rule), and all that are done.
  double model_utilisation = 0, hardware_utilisation = 0;
};
Figures figures_of(const Found& found, const Subject& subject);

// What befalls a long run.
struct Conditions {
  std::optional<sim::Failures> failures = {};
  double jitter = 0;  // of the time that devices take for work: the standard deviation of its logarithm
};

// Of the devices that the plan uses.
struct Budget {
  double device_hours = 0, days = 0;
  double kilowatt_hours = 0, money = 0;  // 0 where the cluster file has no watts, or no prices
  double step_seconds = 0;               // with ranks that wait for the slowest
  std::optional<sim::Goodput> goodput = {};
};
// Of which every one is simulated where ranks differ.
constexpr int kMostUnequalRanks = 64;
// Throws Error for jitter on more ranks than that.
Budget budget_of(const Found& found, const Subject& subject, const Cluster& cluster, double samples,
                 const Conditions& conditions = {});

// How much more a rank of `other` spends on something, on average over ranks; the largest first, those below
// 1 % of the step left out.
struct Difference {
  std::string what;
  double seconds = 0;
};
std::vector<Difference> differences(const Found& best, const Found& other);

// What a step would take were one thing of the cluster worse: a link or a class of devices a quarter slower,
// a link's messages twice as late, one device twice as slow (of up to kMostUnequalRanks). The largest first.
struct Sensitivity {
  std::string what;
  double seconds = 0;
};
std::vector<Sensitivity> sensitivity_of(const Found& found, const Subject& subject, const Cluster& cluster);

// The part of the space that a baseline stands for: intra, inter, manual; "" is none. Throws Error for
// others.
Wish baseline(std::string_view name, const Subject& subject, const Cluster& cluster);

}  // namespace trireme::planner
