// What ways of agreement would make of a plan's step: every method of exchange in the place of dense sums,
// and what of the links it is that dense sums wait for.
#pragma once

#include <string>
#include <vector>

#include "trireme/planner/search.h"

namespace trireme::planner {

struct ExchangeOption {
  std::string method;
  double step_seconds = 0;
  double bytes_sent = 0;  // by all ranks in a step, on the average
  std::string refused;    // why it does not go with the plan, the model or the settings; "": it does
};

struct ExchangeAnswer {
  // Dense sums first; then the others, the fastest first, and at last those that are refused.
  std::vector<ExchangeOption> options;
  // What a step of dense sums would save were all links without end in their rate, or without latency.
  double rate_seconds = 0, latency_seconds = 0;

  const ExchangeOption& dense() const { return options.front(); }
  const ExchangeOption& fastest() const;
};

// Methods have their default settings. The plan has several replicas; throws Error where it has one.
ExchangeAnswer exchange_options(const Found& found, const Subject& subject, const Cluster& cluster);

}  // namespace trireme::planner
