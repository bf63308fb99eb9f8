// Measures steps: the times, bytes and rates in the log line of each.
#pragma once

#include <cstdint>
#include <optional>

#include "trireme/base/clock.h"
#include "trireme/run/run_folder.h"
#include "trireme/runtime/arrivals.h"
#include "trireme/train/critical_batch.h"
#include "trireme/train/trainer.h"

namespace trireme {

class StepMeter {
 public:
  struct Run {
    int64_t batch = 0;  // samples of a step
    double units = 0;   // of a step, as rates count them: tokens, or samples
    double flops = 0;   // of a step; for MFU
    double dense_bytes =
        0;  // that this rank would send in a step without the plan's exchange; 0: it has none
    double seconds_before = 0;  // that earlier parts of the run took
    bool noise_scale = false;   // train.noise_scale
    std::optional<ExpectedStep> expected = {};
  };
  // Time counts from here. The trainer must outlive it.
  StepMeter(const Run& run, Trainer& trainer);

  // What is communicated between steps, by evaluations and checkpoints, belongs to no step.
  void begin();
  // The line of the step since begin(), number `step` counted from 1. `samples` were seen in the whole run.
  // `arrivals`: of a rank that goes by them; null otherwise. `peak_flops`: of all devices; 0: not known.
  StepMetrics end(int64_t step, const StepResult& done, double rate, int64_t samples, ArrivalDriver* arrivals,
                  double peak_flops);

 private:
  void add_exchange(const StepResult& done, ArrivalDriver* arrivals, StepMetrics& line);

  const Run run_;
  Trainer& trainer_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point begin_ = start_;
  CriticalBatch critical_batch_;
  double would_have_sent_ = 0, sent_ = 0;  // bytes, by this rank in all steps
};

}  // namespace trireme
