// Copies of a run's state in the memory of its job (comm/launch/job_memory.h), in the format of checkpoints:
// ranks that are started again after a loss continue from the newest, where a checkpoint on disk would cost
// the steps of an interval. They do not outlive the job.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "trireme/base/clock.h"
#include "trireme/checkpoint/checkpoint.h"
#include "trireme/train/trainer.h"

namespace trireme {

// All functions are collective, but is_due() and load_after() send nothing. The two newest copies are kept.
class MemoryCopies {
 public:
  // The share of a run's time that copies may take where nobody said how often they are made.
  static constexpr double kShareOfTime = 0.05;

  // `every`: steps; 0: as many as keep the time for copies below kShareOfTime. `folder` is the job's. All
  // that is given by reference must outlive it.
  MemoryCopies(const std::string& folder, int64_t every, CheckpointPeers peers, Trainer& trainer,
               const RankOptions& ranks);

  bool is_due(int64_t step) const { return step >= next_ && trainer_.agrees_after(step); }
  // Makes a copy. Returns why there is none, as a sentence for people; "" where there is one. One that does
  // not fit is not tried again, another after 1, 2, 4, … steps. `state`: as for checkpoints.
  std::string make(int64_t step, const std::function<TrainState()>& state);

  // The run has rewound to this step: copies of later ones are removed, so that none stands for what was
  // undone nor takes the room of those to come.
  void rewound_to(int64_t step);

  // The newest copy of more steps than these that is whole; nothing where there is none.
  std::optional<LoadedCheckpoint> load_after(int64_t step) const;

 private:
  std::string what_does_not_fit() const;
  int64_t steps_to_next(int64_t step, Clock::time_point began) const;

  const int64_t every_;
  const std::string folder_;
  CheckpointPeers peers_;
  Trainer& trainer_;
  const RankOptions& ranks_;
  Checkpoints copies_;
  int64_t next_ = 0;                        // is due after this step
  int64_t retry_after_ = 0;                 // steps; 0: the last attempt was good
  int64_t counted_from_ = 0;                // the step after which ended_ was
  Clock::time_point ended_ = Clock::now();  // of the last attempt
  enum class Fits { kUnknown, kYes, kNo } fits_ = Fits::kUnknown;
};

// Moves the newest copy of a job that ended into the run's folder, where that has none of so many steps.
// Returns its path there; "" where there was nothing to move. Throws Error.
std::string rescue_copy(const std::string& memory, const std::string& run_dir);

}  // namespace trireme
