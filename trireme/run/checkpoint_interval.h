// How often a run writes checkpoints when nobody said (run.checkpoint_every=auto): by Young and Daly, from
// what a checkpoint costs here and how often something fails.
#pragma once

#include <cstdint>
#include <string>

#include "trireme/base/clock.h"
#include "trireme/train/trainer.h"

namespace trireme {

// The time between checkpoints that loses least, √(2 · cost · time between failures): more often, and writing
// costs more; less often, and a failure does.
double young_daly_seconds(double checkpoint_seconds, double seconds_between_failures);

class CheckpointInterval {
 public:
  // The first checkpoint, by which the cost is measured, is early.
  static constexpr int64_t kFirst = 10;  // steps

  // What is given by reference must outlive it.
  CheckpointInterval(double hours_between_failures, const RankOptions& ranks)
      : failure_seconds_(3600 * hours_between_failures), ranks_(ranks) {}

  // To be called after each step, before is_due().
  void stepped(int64_t step);
  bool is_due(int64_t step) const { return step >= next_; }
  int64_t next() const { return next_; }
  // Training waited from `began` until now for the checkpoint of `step`. Collective: the next one is due
  // after the same step on all ranks. Returns a line for people.
  std::string wrote(int64_t step, Clock::time_point began);

 private:
  const double failure_seconds_;
  const RankOptions& ranks_;
  int64_t next_ = 0;          // 0: not known yet
  int64_t counted_from_ = 0;  // the step after which counted_since_ was
  Clock::time_point counted_since_ = {};
};

}  // namespace trireme
