// Whole training steps on random data, timed on one rank or on all of a job: what they take, what fraction of
// the machine's arithmetic the model's own work makes up, and where the time goes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trireme/bench/step_profile.h"
#include "trireme/bench/step_setup.h"
#include "trireme/comm/context.h"
#include "trireme/train/trainer.h"

namespace trireme::bench {

struct StepQuestion {
  int steps = 10;
  int warmup = 3;
  int64_t first = 0;                      // number of the first step, where a plan does others in early ones
  std::optional<ProfileBy> profile = {};  // of as many steps again, node by node
  bool peak = true;  // also measures what the machine can do at most; false: no utilisation, no profile
  ProductFile products;
  double peak_flops_per_second = 0;  // of one rank; 0: measured
};

// Which rank this is; the communicator and the context are null where there is one alone.
struct StepRank {
  RankOptions options;
  comm::Context* context = nullptr;

  int ranks() const { return options.plan.mesh.ranks(); }
  bool leads() const { return options.rank == 0; }
};

struct StepReport {
  int64_t parameters = 0;
  int ranks = 1, threads = 0;  // threads of each
  std::string device, device_description;
  double least_seconds = 0, median_seconds = 0, p90_seconds = 0, units_per_second = 0;
  // In collectives: of the rank that spends least, which waits for nobody, and of the one that spends most,
  // which waits for slower ranks. Medians over the steps.
  double exposed_seconds = 0, waiting_seconds = 0;
  // Where the plan offloads states: bytes that a step reads and writes, the seconds of that, and of them
  // those for which the step waited. Medians over the steps, of this rank.
  double file_bytes = 0, file_seconds = 0, file_waited_seconds = 0;
  double model_flops = 0, peak_flops_per_second = 0;  // in one step; of all threads
  size_t planned_bytes = 0;
  size_t resident_bytes = 0;  // before anything else was measured
  double first_loss = 0, last_loss = 0;
  std::vector<ProfileRow> profile;  // where it was asked for

  double model_flops_per_second() const { return model_flops / median_seconds; }
  double utilisation() const { return model_flops_per_second() / peak_flops_per_second; }
};

// Collective, where there are several ranks. `begins` is called on each before the first step, with what is
// known by then. Throws Error when a gradient is not finite.
StepReport time_steps(const StepSetup& setup, const StepQuestion& question, const StepRank& rank,
                      const std::function<void(const StepReport&)>& begins);

}  // namespace trireme::bench
