// A whole run: trainer, checkpoints and metrics, from a model, its data and resolved settings to the last
// step.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "trireme/comm/group.h"
#include "trireme/data/open_data.h"
#include "trireme/run/config.h"
#include "trireme/run/observer.h"
#include "trireme/run/run_setup.h"
#include "trireme/runtime/device.h"
#include "trireme/train/trainer.h"

namespace trireme {

// What a run takes from the process around it.
struct RunContext {
  const std::atomic<bool>* stop =
      nullptr;  // when it becomes true, the run ends after the step in hand, with a checkpoint
  // What a signal is to do from now on: before the first step there is nothing to save, and after the last
  // one all is saved.
  enum class OnSignal { kStop, kEndAtOnce };
  std::function<void(OnSignal)> on_signal = [](OnSignal) {};
  RankOptions ranks = {};  // of several, only rank 0 writes; run.dir must be the same on all
  const std::atomic<bool>* regroup = nullptr;  // the same, with a copy in memory alone (StopReason::kRegroup)
  std::string memory = {};  // the job's folder in memory, for copies there (memory_copies.h); "": none
  std::optional<comm::StartedAgain> again = {};  // why this is not the job's first start
  comm::Group* world = nullptr;                  // all of them; must be there when there are several
  int ranks_here = 1;                            // on this host, which share its cores
  int rank_here = 0;                             // number of this one among them
  comm::DeviceLinks device_links = comm::DeviceLinks::through_host;
  ProductFile products = {};                  // of a GPU
  std::optional<ExpectedStep> expected = {};  // goes into the log, beside what was measured
  std::string simulated = {};                 // timeline_json() of the same; "": none
  // Of a plan with a server, or whose ranks mix weights at their own pace: the metrics.jsonl of a run whose
  // order of arrivals this one is to have; "": as they come.
  std::string replay = {};
};

// Trains until train.steps are done or it is stopped. The data is what open_run_data() gives, or the
// caller's: of that, `train`, `input` and a `summary` are needed. Prints nothing, but calls the observer.
// Throws Error.
RunResult run_training(const ResolvedConfig& config, const ModelRecord& model, const OpenedData& data,
                       const RunContext& context, RunObserver& observer);

}  // namespace trireme
