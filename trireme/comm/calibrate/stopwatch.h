// Times operations of all ranks together: what the slowest rank took, again and again, and of that the lower
// quartile. On a machine that others use too, a few disturbances would move the median of few repetitions.
#pragma once

#include <functional>
#include <vector>

#include "trireme/comm/engine.h"

namespace trireme::comm {

class Stopwatch {
 public:
  // `seconds` to spend on a figure; the least number of repetitions is taken all the same.
  Stopwatch(Engine& engine, double seconds) : engine_(engine), budget_seconds_(seconds) {}

  // Collective. `body` does once what is timed, and may be any number of times the same.
  double seconds(const std::function<void()>& body);
  // The same of an operation that `start` starts.
  double operation_seconds(const std::function<Operation&()>& start);

 private:
  double barrier_and_time(const std::function<void()>& body);
  void run(const Call& call, void* data);
  int64_t from_rank_0(int64_t number);

  Engine& engine_;
  double budget_seconds_;
  std::vector<double> times_;
};

}  // namespace trireme::comm
