// Are predicted times near measured ones? On a machine whose speed changes from second to second only what
// was measured at the same time can be compared, so links and collectives are measured in turns.
#pragma once

#include <string>
#include <vector>

#include "trireme/bench/collective_timing.h"

namespace trireme::bench {

// Collective. `question.seconds` are those of all rounds together. Algorithms and segments are those that the
// group chooses; a round is predicted by its own links.
std::vector<CollectiveTime> check_predictions(comm::Context& context, comm::Group& group,
                                              const CollectiveQuestion& question, int rounds);

// Predicted over measured: the median over the rounds, where there are some.
double prediction_ratio(const CollectiveTime& time);

// How good predictions and choice were; for people, and whether they were good enough: all predictions within
// 20% of the median, no choice more than 10% slower than the best algorithm of its size.
struct PredictionVerdict {
  std::string text;
  bool good = true;
};
PredictionVerdict judge_predictions(const std::vector<CollectiveTime>& times);

}  // namespace trireme::bench
