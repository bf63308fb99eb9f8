// timeline/ of a run's folder: what ranks did in one step, and when. Each rank writes its own file, N.json,
// so that nothing is sent; simulated.json has the same step as a simulation before the run saw it.
// docs/run_folder.md describes the fields.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/trace.h"
#include "trireme/sim/simulate.h"

namespace trireme {

inline constexpr const char* kTimelineFolder = "timeline";
inline constexpr const char* kSimulatedTimeline = "simulated.json";

struct StepTimeline {
  struct Rank {
    int rank = 0;
    int stands_for = 1;  // ranks that do the same, itself among them
    std::span<const TraceEvent> events;
  };
  int64_t step = 0;               // 0: of a simulation
  double begin = 0, seconds = 0;  // by the events' clock
  std::vector<Rank> ranks;
};
// Of many events of a rank the first 4,000.
std::string timeline_json(const StepTimeline& timeline);
// Of a report with events.
std::string timeline_json(const sim::SimReport& report);
// Throws Error.
void write_simulated_timeline(const std::string& folder, const std::string& json);

// Records one step of this process in its file.
class StepRecorder {
 public:
  // Of the rank `rank`. Without a trace, and for the step 0, it records nothing. The trace outlives it.
  StepRecorder(Trace* trace, int rank, int64_t step) : trace_(trace), rank_(rank), step_(step) {}

  // Around each step; one that fails has no end. A file that can not be written is left out: a log may not
  // end a run.
  void begin(int64_t step);
  void end(int64_t step, const std::string& folder);

 private:
  void pause();
  bool records(int64_t step) const { return trace_ && step_ > 0 && step == step_; }

  Trace* trace_;
  int rank_;
  int64_t step_;
  bool under_way_ = false, was_recording_ = false;
  size_t first_ = 0;  // of its events
  double begin_ = 0;
};

}  // namespace trireme
