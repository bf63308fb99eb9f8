// A training step on a cluster, without data: the Programs that would run, against the clock. Built for
// thousands of ranks: where all ranks of a stage do the same on devices and links that are alike, one of them
// stands for all, with the same times to the last bit. Of more than 256 ranks whose parts differ in size,
// those with the largest parts stand for all: steps then come out a little long, by what their parts are
// larger.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/mesh/device_map.h"
#include "trireme/plan/plan.h"
#include "trireme/program/program.h"
#include "trireme/sim/clock.h"
#include "trireme/sim/collective_time.h"

namespace trireme::sim {

// The Program of a rank; built by whoever knows the model. Asked for once for each rank that is simulated.
using ProgramSource = std::function<Program(int rank)>;

struct SimOptions {
  CollectiveModel collectives = CollectiveModel::kClosedForms;
  Algorithms algorithms = {};
  // kAll simulates every rank, however alike they are.
  enum class Ranks { kRepresentatives, kAll } ranks = Ranks::kRepresentatives;
  Overlap overlap = Overlap::kAsPlanned;
  Events events = Events::kNone;  // RankTime::events
  // Then every rank is simulated; with jitter, so many steps with seeds after one another.
  Disturbance disturbance = {};
  int draws = 1;
  // What the programs were built from: it says in which order servers, and ranks at their own pace, do
  // things.
  std::optional<Plan> plan = {};
};

// Bytes of a rank by what they are for: the roles of states, then "activations" (the arena), "comm memory"
// and "inputs". What alignment takes is counted to the states.
struct MemoryUse {
  std::vector<std::pair<std::string, size_t>> kinds;
  size_t peak_bytes = 0;  // as the Program says, and the runtime allocates

  friend bool operator==(const MemoryUse&, const MemoryUse&) = default;
};
MemoryUse memory_of(const Program& program);

struct RankReport {
  int rank = 0;
  int stands_for = 1;                         // ranks, itself among them
  std::shared_ptr<const DeviceClass> device;  // the report's own copy: reports outlive clusters
  MemoryUse memory;
  RankTime time;
};

// A step before those that the report is about, where early ones are others.
struct EarlyStep {
  int64_t until = 0;  // the last such step, counted from 1
  double step_seconds = 0;
  double bytes_sent = 0;  // by all ranks
};

// Of a step, on the average over those after which everything repeats itself. At their own pace ranks make
// steps of different lengths: then of the time in which they make one each, on the average.
struct SimReport {
  double step_seconds = 0;
  int64_t steps = 1;  // that were timed, and that events are of
  double bubble = 0;  // the share of the step in which ranks wait for other stages, on average
  std::vector<RankReport> ranks;
  int64_t parameters = 0;
  double flops = 0;       // of all ranks, with what is made again
  PerReach bytes = {};    // of all ranks
  double bytes_sent = 0;  // likewise, the sum
  std::vector<EarlyStep> early = {};
  // Where devices are disturbed: the time of each step that was drawn, ascending; the rest is about the
  // first.
  std::vector<double> drawn_seconds = {};

  // The rank with the most memory over what its device has.
  const RankReport& fullest() const;
};

// Throws Error as run_clock() does. That everything fits is for the caller to ask.
SimReport simulate(const DeviceMap& device_map, const ProgramSource& programs,
                   const SimOptions& options = {});

}  // namespace trireme::sim
