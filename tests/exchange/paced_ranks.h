// Ranks that mix weights at their own pace, as threads, with all that went into each step and came out.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/exchange/ranks.h"
#include "trireme/comm/collective/emulated_link.h"
#include "trireme/train/rank_steps.h"

namespace trireme::testing {

struct PacedRank {
  struct Step {
    std::map<std::string, Floats> gradients, after;  // of the mean over the rank's own rows; weights
    StepResult result;
  };
  std::vector<Step> steps;
  std::map<std::string, Floats> left;  // weights, when all were through
  ArrivalOrder order;                  // as a log has it
};

struct PacedRun {
  std::map<std::string, Floats> start;  // weights
  std::vector<PacedRank> ranks;

  std::vector<ArrivalOrder> orders() const;
};

struct PacedOptions {
  std::vector<ArrivalOrder> replay = {};  // by rank
  std::optional<comm::EmulatedLink> link = {};
  // Called before each step; returns false where the rank is to be stopped there.
  std::function<bool(int rank, int64_t step, Communicator& communicator)> before = nullptr;
};

// Where the plan's ranks are in lockstep, they are here too.
PacedRun paced_run(const Plan& plan, const Training& training, const PacedOptions& options = {});

}  // namespace trireme::testing
