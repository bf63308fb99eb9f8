// A server and its workers as threads, with all that came out of each step.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/exchange/ranks.h"
#include "trireme/comm/collective/emulated_link.h"
#include "trireme/plan/agreement.h"
#include "trireme/train/arrival_order.h"

namespace trireme::testing {

using Orders = std::vector<ArrivalOrder>;  // as logs have it, of each server

struct ServedRun {
  struct Step {
    std::map<std::string, Floats> weights, statistics;  // of the servers, afterwards
    StepResult result;
    Arrivals arrivals;
  };
  std::vector<Step> steps;
  std::map<std::string, Floats> optimizer;          // the server's states, after the last step
  std::vector<std::map<std::string, Floats>> left;  // weights of each worker when it was let go
  std::vector<int64_t> computed;                    // steps of each worker
  std::vector<double> bytes_sent;                   // by each worker in its first step
  Orders orders;
};

struct ServedOptions {
  Orders replay = {};  // empty: as messages come
  std::optional<comm::EmulatedLink> link = {};
  std::vector<int> slow_milliseconds = {};  // that a worker takes longer for a step
  double loss_scale = 1;                    // of workers alone
  int64_t stop_after = -1;                  // steps; −1: as many as the training has
};

ServedRun served_run(const Plan& plan, const Training& training, const ServedOptions& options = {});

// Weights after each step of plain data parallelism, whose sums are made in the order of ranks, as a server's
// are; and the optimizer's states after the last.
struct PlainRun {
  std::vector<std::map<std::string, Floats>> weights, statistics;
  std::vector<StepResult> results;
  std::map<std::string, Floats> optimizer;
};
PlainRun plain_run(int ranks, const Training& training);

}  // namespace trireme::testing
