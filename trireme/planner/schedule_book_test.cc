// What the planner reads from schedules, against the schedules themselves.
#include "trireme/planner/schedule_book.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "trireme/schedule/timeline.h"
#include "trireme/schedule/verify_pipeline.h"

namespace trireme::planner {
namespace {

// By name they would be a second list; these are what the records say.
TEST(ScheduleBook, SearchesWhatComputesTheSameOnce) {
  std::vector<std::string_view> names;
  for (const PipelineSchedule* schedule : searched_schedules()) names.push_back(schedule->name);
  EXPECT_EQ(names, (std::vector<std::string_view>{"1f1b", "interleaved", "zb_h1", "zb_h2", "zb_v"}));
  EXPECT_EQ(one_chunk_schedule(WeightPhase::kNone).name, "1f1b");
  EXPECT_EQ(one_chunk_schedule(WeightPhase::kApart).name, "zb_h1");
}

TEST(ScheduleBook, RecordsSayWhatSchedulesDo) {
  for (const PipelineSchedule& schedule : pipeline_schedules()) {
    SCOPED_TRACE(schedule.name);
    const Pipeline pipeline = make_pipeline(schedule, {.stages = 2, .microbatches = 4});
    EXPECT_EQ(schedule.weights == PipelineSchedule::Weights::kApart, has_phase(pipeline, Phase::kWeight));
    EXPECT_EQ(schedule.updates == PipelineSchedule::Updates::kBetweenTurns, is_asynchronous(pipeline));
    if (!schedule.instead.empty()) {
      EXPECT_NO_THROW(find_schedule(schedule.instead));
    }
  }
}

int64_t most_live(const std::vector<LiveMoment>& moments) {
  int64_t most = 0;
  for (const LiveMoment& moment : moments) {
    int64_t live = 0;
    for (const auto* counts : {&moment.before_backward, &moment.before_weight}) {
      for (int64_t count : *counts) live += count;
    }
    most = std::max(most, live);
  }
  return most;
}

// What is booked for a few microbatches holds for many: microbatches that are kept, and the time, for which
// the timeline of all of them is what to compare with.
TEST(ScheduleBook, AFullPipelineRepeatsItself) {
  ScheduleBook book;
  for (const PipelineSchedule* schedule : searched_schedules()) {
    for (const int stages : {2, 3, 4, 8}) {
      const int chunks = schedule->needs.least_chunks;
      const int64_t many = 12 * stages;
      SCOPED_TRACE(std::string(schedule->name) + " of " + std::to_string(stages));
      const Pipeline whole = make_pipeline(*schedule, {stages, many, chunks});
      const BookedSchedule& booked = book.of(schedule->name, stages, many, chunks);
      EXPECT_EQ(booked.live, live_moments(whole));
      const PipelineProof proof = verify(whole);
      for (int stage = 0; stage < stages; ++stage)
        EXPECT_EQ(most_live(booked.live[stage]), proof.live[stage]);
      EXPECT_EQ(booked.holds, whole.holds);
      std::vector<ChunkTimes> times;
      std::vector<ChunkSeconds> seconds;
      const bool apart = schedule->weights == PipelineSchedule::Weights::kApart;
      for (int c = 0; c < whole.chunks; ++c) {
        times.push_back({.forward = 1 + 0.1 * c, .backward = 1.5, .weight = 0.7});
        seconds.push_back({.forward = 1 + 0.1 * c, .backward = apart ? 1.5 : 2.2, .weight = 0.7});
      }
      const Timeline line = timeline(whole, {times, 0});
      const std::vector<double> updates(stages, 0.0), nothing(stages, -1.0);
      EXPECT_NEAR(booked.seconds(many, seconds, updates), line.end, 0.02 * line.end);
      EXPECT_LE(booked.least_seconds(seconds, updates, nothing), line.step * (1 + 1e-9));
      // Of as many as are booked it is exact.
      const Pipeline few = make_pipeline(*schedule, {stages, 2 * stages, chunks});
      const BookedSchedule& exact = book.of(schedule->name, stages, 2 * stages, chunks);
      EXPECT_NEAR(exact.seconds(2 * stages, seconds, updates), timeline(few, {times, 0}).end, 1e-9);
    }
  }
}

}  // namespace
}  // namespace trireme::planner
