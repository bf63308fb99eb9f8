// Ranks that have weights of their own, as threads, with all that went into each step and came out.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/exchange/ranks.h"

namespace trireme::testing {

struct LocalStep {
  // By parameter, of each rank. Gradients are of the mean over the rank's own targets.
  std::map<std::string, std::vector<Floats>> gradients, after;
  // By buffer, of each rank: what its forward part has made of its own, and what it has behind the step.
  std::map<std::string, std::vector<Floats>> made, statistics;
  std::vector<double> counts;        // of each rank
  std::vector<uint64_t> bytes_sent;  // by each rank
};

struct LocalRun {
  std::map<std::string, Floats> start, start_statistics;  // weights, buffers
  std::vector<LocalStep> steps;
};

// The states of a role; gradients by the names of their parameters.
std::map<std::string, Floats> read(Trainer& trainer, Role role);

// Of batches in which each rank's rows have another number of targets that count.
LocalRun run_of(const Plan& plan, const Training& training);

}  // namespace trireme::testing
