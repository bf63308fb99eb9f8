// What the planner asks of pipeline schedules: who has which chunk, how many microbatches stages keep at a
// time, and how long a step takes with given times of its turns. All of it is read from the schedule's record
// and from the schedule itself; nothing here knows a schedule by its name.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "trireme/passes/stage.h"
#include "trireme/schedule/pipeline_table.h"
#include "trireme/schedule/turn_order.h"
#include "trireme/schedule/verify_pipeline.h"

namespace trireme::planner {

// A schedule for a number of stages and chunks, and at most so many microbatches that it repeats itself: what
// it says of those holds for any more.
class BookedSchedule {
 public:
  BookedSchedule(const PipelineSchedule& schedule, int stages, int64_t microbatches, int chunks);

  std::vector<std::vector<int>> holds;        // of each stage: its chunks, in the order of the forward pass
  std::vector<int> stage_of;                  // of each chunk
  std::vector<std::vector<LiveMoment>> live;  // of each stage: microbatches that are kept, chunks as `holds`

  // Of a step of so many microbatches, with the update that each stage does after its last turn.
  double seconds(int64_t microbatches, std::span<const ChunkSeconds> chunks,
                 std::span<const double> updates) const;
  // What no order of messages can beat: of the longest time that a stage takes from its first turn to its
  // last, so that it also holds where stages go on to the next step by themselves. Where a stage sends
  // something to the first one that its update waits for, `to_first` says how long that takes; else it is
  // negative.
  double least_seconds(std::span<const ChunkSeconds> chunks, std::span<const double> updates,
                       std::span<const double> to_first) const;

 private:
  int64_t few_ = 0, many_ = 0;
  std::unique_ptr<const TurnOrder> of_few_, of_many_;  // the first only where more can be asked for
};

class ScheduleBook {
 public:
  const BookedSchedule& of(std::string_view schedule, int stages, int64_t microbatches, int chunks);

 private:
  std::map<std::tuple<std::string, int, int64_t, int>, BookedSchedule, std::less<>> known_;
};

// Those that compute what one rank computes, and that no other is better than in all respects.
std::vector<const PipelineSchedule*> searched_schedules();

// The first of them with one chunk a stage and such a phase for the gradients of weights.
const PipelineSchedule& one_chunk_schedule(WeightPhase weights);

}  // namespace trireme::planner
