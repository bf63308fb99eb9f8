// A whole run: data, trainer, checkpoints, metrics and progress, from resolved settings to the last step.
#pragma once

#include <atomic>
#include <string>

#include "trireme/train/config.h"
#include "trireme/train/data/open_data.h"

namespace trireme {

struct RunResult {
  enum class End { kFinished, kStopped } end = End::kFinished;
  std::string folder;
  int64_t steps = 0;  // done in all
  double loss = 0;    // of the last step
};

// Opens the data that the settings name. `default_path` is read when data.path is empty.
OpenedData open_run_data(const Config& config, const std::string& default_path);

// The settings with everything automatic filled in from the data.
ModelOptions complete_model(const Config& config, const OpenedData& data);

// Trains until train.steps are done or `stop` becomes true, which ends the run after the step in hand and
// with a checkpoint. Throws Error.
RunResult run_training(const ResolvedConfig& config, const std::string& default_path,
                       const std::atomic<bool>& stop);

}  // namespace trireme
