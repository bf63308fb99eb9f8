// What a run does about steps with bad numbers (train.on_nan, train.on_spike): the limit above which a loss
// is a spike, and the checkpoint that it rewinds to. All ranks see the same losses and come to the same
// result. Checkpoints keep it, so that a resumed run does the same as one that was not stopped.
//
//   spike    a loss above mean + train.spike_deviations · deviation of the losses of the last
//            train.spike_window steps that were good
//   skip     the step's update is left out (train/trainer.h)
//   rewind   weights and all else are those of the last checkpoint that the run wrote by its schedule, or of
//            its start, and training goes on with the batch behind the bad one
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "trireme/train/bad_numbers.h"
#include "trireme/train/options.h"
#include "trireme/train/trainer.h"

namespace trireme {

class BadSteps {
 public:
  explicit BadSteps(const TrainOptions& train);

  double loss_limit() const;  // Trainer::kNoLossLimit where there is none yet
  void add(const StepResult& done);

  // Whether the run rewinds, rather than ends; and whether it has not rewound train.max_rewinds times to this
  // point already.
  bool rewinds_after(BadNumbers::Kind kind) const;
  bool may_rewind() const { return rewinds_here_ < most_rewinds_; }
  bool rewinds() const { return rewinds_; }
  // The step of the checkpoint to rewind to, which must be kept; 0: the start of the run.
  int64_t rewind_to() const { return point_; }
  // A checkpoint of this step is written, and replaces the one before as that to rewind to; or it could not
  // be written.
  void saves(int64_t step);
  void not_saved(int64_t step);
  // The run goes on from rewind_to(), whose checkpoint has `extra`; "{}": from its start.
  void rewound(std::string_view extra, std::string_view where);
  int64_t rewinds_so_far() const { return rewinds_so_far_; }

  int64_t skipped_in_a_row = 0;  // as the trainer's, for checkpoints

  // As HeldOutRecord's. `step`: of the checkpoint.
  std::string added_to(std::string_view extra) const;
  void restore(std::string_view extra, int64_t step, std::string_view where);

 private:
  void restore_losses(std::string_view extra, std::string_view where);

  std::string on_nan_, on_spike_;
  double deviations_;
  size_t window_;
  int64_t most_rewinds_;
  bool rewinds_;
  std::deque<double> losses_;  // of good steps, oldest first
  int64_t point_ = 0, point_before_ = 0;
  int64_t rewinds_here_ = 0;  // to point_
  int64_t rewinds_so_far_ = 0;
};

}  // namespace trireme
