// See schedule_book.h.
#include "trireme/planner/schedule_book.h"

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme::planner {
namespace {

// Microbatches for each stage, after which all schedules repeat themselves.
constexpr int64_t kUntilFull = 2;

int64_t most_booked(int stages) {
  return 2 * kUntilFull * stages;
}

bool holds_once(const PipelineSchedule& schedule) {
  const int stages = 2;
  const Pipeline pipeline = make_pipeline(schedule, {.stages = stages, .microbatches = 2 * stages});
  size_t held = 0;
  for (const std::vector<int>& chunks : pipeline.holds) held += chunks.size();
  return held == static_cast<size_t>(pipeline.chunks);
}

}  // namespace

std::vector<const PipelineSchedule*> searched_schedules() {
  std::vector<const PipelineSchedule*> result;
  for (const PipelineSchedule& schedule : pipeline_schedules()) {
    if (schedule.updates == PipelineSchedule::Updates::kAfterStep && schedule.instead.empty() &&
        holds_once(schedule))
      result.push_back(&schedule);
  }
  return result;
}

const PipelineSchedule& one_chunk_schedule(WeightPhase weights) {
  for (const PipelineSchedule* schedule : searched_schedules()) {
    const bool apart = schedule->weights == PipelineSchedule::Weights::kApart;
    if (schedule->needs.least_chunks == 1 && apart == (weights == WeightPhase::kApart)) return *schedule;
  }
  throw_error("no schedule has one chunk a stage");
}

BookedSchedule::BookedSchedule(const PipelineSchedule& schedule, int stages, int64_t microbatches, int chunks)
    : few_(kUntilFull * stages), many_(microbatches) {
  const auto made = [&](int64_t count) {
    return make_pipeline(schedule, {.stages = stages, .microbatches = count, .chunks_per_stage = chunks});
  };
  const Pipeline pipeline = made(many_);
  holds = pipeline.holds;
  live = live_moments(pipeline);
  stage_of.resize(static_cast<size_t>(pipeline.chunks));
  for (size_t stage = 0; stage < holds.size(); ++stage) {
    for (const int chunk : holds[stage]) stage_of[static_cast<size_t>(chunk)] = static_cast<int>(stage);
  }
  of_many_ = std::make_unique<const TurnOrder>(pipeline);
  if (many_ == most_booked(stages)) of_few_ = std::make_unique<const TurnOrder>(made(few_));
}

double BookedSchedule::seconds(int64_t microbatches, std::span<const ChunkSeconds> chunks,
                               std::span<const double> updates) const {
  const auto end = [&](const TurnOrder& order) {
    const TurnOrder::Ends ends = order.timed(chunks, Wires::kInTurn);
    double last = 0;
    for (size_t stage = 0; stage < ends.last.size(); ++stage)
      last = std::max(last, ends.last[stage] + updates[stage]);
    return last;
  };
  const double of_many = end(*of_many_);
  if (microbatches == many_) return of_many;
  const double of_one = (of_many - end(*of_few_)) / static_cast<double>(many_ - few_);
  return of_many + static_cast<double>(microbatches - many_) * of_one;
}

double BookedSchedule::least_seconds(std::span<const ChunkSeconds> chunks, std::span<const double> updates,
                                     std::span<const double> to_first) const {
  const TurnOrder::Ends ends = of_many_->timed(chunks, Wires::kFree);
  double longest = 0;
  for (size_t stage = 0; stage < ends.last.size(); ++stage) {
    longest = std::max(longest, ends.last[stage] - ends.first[stage] + updates[stage]);
    // From one step's first turn to the next one's: nothing begins before the first stage does.
    if (to_first[stage] >= 0)
      longest = std::max(longest, ends.last[stage] - ends.first[0] + to_first[stage] + updates[0]);
  }
  return longest;
}

const BookedSchedule& ScheduleBook::of(std::string_view schedule, int stages, int64_t microbatches,
                                       int chunks) {
  microbatches = std::min(microbatches, most_booked(stages));
  const auto key = std::tuple(std::string(schedule), stages, microbatches, chunks);
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  return known_.try_emplace(key, find_schedule(schedule), stages, microbatches, chunks).first->second;
}

}  // namespace trireme::planner
