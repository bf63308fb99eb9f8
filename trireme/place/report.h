// A placement as people and programs read it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "trireme/place/baselines.h"
#include "trireme/place/latency_goal.h"

namespace trireme::place {

// Ops with their variants, workers and loads; then accuracy and cost.
std::string to_text(const Workflow& workflow, const Placement& placement);
// The same, and what nothing can be cheaper than.
std::string to_text(const Workflow& workflow, const BestPlacement& best);

// The same with messages, for programs.
nlohmann::ordered_json to_json(const Workflow& workflow, const BestPlacement& best);

// One line for each, against the best.
std::string to_text(const Workflow& workflow, const std::vector<Baseline>& baselines,
                    const BestPlacement& best);

// What accuracy costs: the best placement for each accuracy that is worth paying for, from the cheapest on.
struct AccuracyPrice {
  double accuracy = 0, cost = 0;
  BestPlacement best;
};
std::vector<AccuracyPrice> accuracy_prices(const Workflow& workflow, double seconds);
std::string to_text(const Workflow& workflow, const std::vector<AccuracyPrice>& prices);

// Of requests that were simulated on the placement.
std::string to_text(const PlacedFlow& placed, const QueueReport& report);

}  // namespace trireme::place
