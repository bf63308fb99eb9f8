// The clock: tracks of ranks against one another, without data. A rank has a device that works in order, a
// host that gives it work, and for each axis of the mesh one collective at a time, in the order of the
// program. A collective begins when all of its ranks have come to it. A rank sends its messages one after
// another, and receives them so: a message of n bytes leaves for nβ, and comes in for nβ from α later on.
// Waiting for messages is counted in two parts: for the sender's work (the bubble), and for the links. States
// that rest elsewhere come and go one after another beside the work.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "trireme/base/trace.h"
#include "trireme/mesh/device_map.h"
#include "trireme/sim/agenda.h"
#include "trireme/sim/collective_time.h"
#include "trireme/sim/track.h"

namespace trireme::sim {

// One rank, or one that stands for all ranks of its stage.
struct SimulatedRank {
  int rank = 0;
  const Track* track = nullptr;
  Agenda* agenda = nullptr;  // null: that of one step
};

// Of a step, on the average over those that are timed.
struct RankTime {
  double end_seconds = 0;
  double work_seconds = 0;
  double bubble_seconds = 0;            // waiting for what another stage has not yet made, and after the end
  double offload_seconds = 0;           // waiting for states that rest elsewhere
  std::vector<double> exposed_seconds;  // by axis: work that waits for collectives and for messages
  double flops = 0;
  double bytes_sent = 0;
  double offload_bytes = 0;  // fetched and stored
  PerReach bytes = {};       // the same by link
  // Of all steps that are timed, where they are asked for, in the order in which they ended.
  std::vector<TraceEvent> events = {};
  double steps = 0;  // that were timed of this rank: as many as were asked for, but at its own pace
};

enum class Stands { kForItself, kForItsStage };
enum class Events { kNone, kRecorded };
// Among a rank's events: within a segment, its device waits for a collective.
inline constexpr std::string_view kWaitEvent = "wait";

// What keeps devices from their usual speed.
struct Disturbance {
  std::map<int, double> slow = {};  // rank -> by how much more its work takes
  // Of the logarithm of each stretch of work between two meetings: its standard deviation. On average work
  // takes as long as without.
  double jitter = 0;
  uint64_t seed = 0;  // of the jitter

  bool is_any() const { return !slow.empty() || jitter > 0; }
};

// In step, all ranks make the same steps, and who is through waits for the others. At their own pace nobody
// does, and the run is over when one of them is.
enum class Pace { kInStep, kOwn };

// The steps of all runners: every rank of the mesh in order, or one of each stage in order. What a rank does
// in its first `before` steps is not counted. Throws Error where ranks wait for ever.
std::vector<RankTime> run_clock(std::span<const SimulatedRank> runners, Stands stands,
                                const DeviceMap& device_map, CollectiveTimes& times,
                                Events events = Events::kNone, const Disturbance& disturbance = {},
                                Pace pace = Pace::kInStep, int64_t before = 0);

}  // namespace trireme::sim
