// A whole run: data, trainer, checkpoints, metrics and progress, from resolved settings to the last step.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "trireme/comm/group.h"
#include "trireme/train/config.h"
#include "trireme/train/data/open_data.h"
#include "trireme/train/progress.h"
#include "trireme/train/trainer.h"

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

// What a run takes from the process around it.
struct RunContext {
  std::string default_text;  // read when data.path is empty
  const std::atomic<bool>* stop =
      nullptr;  // when it becomes true, the run ends after the step in hand, with a checkpoint
  // What a signal is to do from now on: before the first step there is nothing to save, and after the last
  // one all is saved.
  enum class OnSignal { kStop, kEndAtOnce };
  std::function<void(OnSignal)> on_signal = [](OnSignal) {};
  double peak_flops = 0;         // of all devices, for MFU; 0: not known
  RankOptions ranks = {};        // of several, only rank 0 prints and writes; run.dir must be the same on all
  comm::Group* world = nullptr;  // all of them; must be there when there are several
  int ranks_here = 1;            // on this host, which share its cores
  Progress::Options::Screen screen = Progress::Options::Screen::kLines;  // what standard output is
};

// Trains until train.steps are done or it is stopped. Throws Error.
RunResult run_training(const ResolvedConfig& config, const RunContext& context);

}  // namespace trireme
