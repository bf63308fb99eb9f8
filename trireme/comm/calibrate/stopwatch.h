// Times operations of all ranks together: what the slowest rank took, again and again, and of that the
// median. Less would be a promise that half of all operations break: ranks that share cores have good and bad
// moments.
#pragma once

#include <functional>
#include <vector>

#include "trireme/comm/engine.h"

namespace trireme::comm {

class Stopwatch {
 public:
  // For each figure. The fewest repetitions are made even where they take longer. Some before them are in
  // vain (settling.h).
  struct Effort {
    double seconds = 0;
    int64_t fewest = 1;
  };
  // `barrier`: how ranks come together before each repetition. It should be what they use themselves, since
  // how far apart they leave it is a part of what is timed.
  Stopwatch(Engine& engine, Algorithm barrier, Effort effort)
      : engine_(engine), barrier_(barrier), effort_(effort) {}

  // Collective. Of an operation on a vector of so many bytes, which `start` starts.
  double operation_seconds(size_t vector_bytes, const std::function<Operation&()>& start);
  // Collective: what rank 0 says.
  int64_t from_rank_0(int64_t number);

 private:
  double barrier_and_time(const std::function<Operation&()>& start);
  void run(const Call& call, void* data);

  Engine& engine_;
  Algorithm barrier_;
  Effort effort_;
  std::vector<double> times_;
};

}  // namespace trireme::comm
