// Messages and slots of every schedule that can be run.
#include "trireme/program/stage_order.h"

#include <gtest/gtest.h>

#include <map>

#include "trireme/schedule/pipeline_table.h"

namespace trireme {
namespace {

// Every chunk hands an activation on, gets a gradient back, and keeps a stash from its forward turn to its
// last; one skips over all chunks.
std::vector<Crossing> crossings(const Pipeline& pipeline) {
  std::vector<Crossing> result;
  const bool weights = has_phase(pipeline, Phase::kWeight);
  const Phase last = weights ? Phase::kWeight : Phase::kBackward;
  for (int chunk = 0; chunk < pipeline.chunks; ++chunk) {
    result.push_back({"stash", chunk, Phase::kForward, {{chunk, last}}});
    if (chunk + 1 == pipeline.chunks) continue;
    result.push_back(
        {"activation", chunk, Phase::kForward, {{chunk + 1, Phase::kForward}, {chunk + 1, last}}});
    result.push_back({"gradient", chunk + 1, Phase::kBackward, {{chunk, Phase::kBackward}}});
  }
  if (pipeline.chunks > 2)
    result.push_back({"skip", 0, Phase::kForward, {{pipeline.chunks - 1, Phase::kForward}}});
  return result;
}

bool can_run(const PipelineSchedule& schedule) {
  return schedule.updates == PipelineSchedule::Updates::kAfterStep;
}

// Plays all stages: a run waits for what it reads; a slot is not taken while it is needed.
void play(const Pipeline& pipeline, const std::string& what) {
  const std::vector<Crossing> all = crossings(pipeline);
  std::vector<StageOrder> orders;
  const StageOrders of_all(pipeline, all);
  for (int stage = 0; stage < pipeline.stages(); ++stage) orders.push_back(of_all.of(stage));
  using Kind = StageOrder::Item::Kind;
  std::map<std::pair<int, int>, std::vector<std::pair<int, int64_t>>> sent, asked;  // by sender and receiver
  for (int stage = 0; stage < pipeline.stages(); ++stage) {
    std::map<std::pair<int, int64_t>, int64_t> slots;  // crossing and slot -> microbatch
    const std::vector<int>& count = orders[stage].slots;
    for (const StageOrder::Item& item : orders[stage].items) {
      if (item.kind == Kind::kSend) {
        ASSERT_EQ((slots[{item.crossing, item.microbatch % count[item.crossing]}]), item.microbatch) << what;
        sent[{stage, item.peer}].emplace_back(item.crossing, item.microbatch);
      } else if (item.kind == Kind::kReceive) {
        slots[{item.crossing, item.microbatch % count[item.crossing]}] = item.microbatch;
        asked[{item.peer, stage}].emplace_back(item.crossing, item.microbatch);
      } else {
        const auto& [phase, chunk, microbatch, version] = item.turn;
        for (size_t c = 0; c < all.size(); ++c) {
          const int number = static_cast<int>(c);
          if (all[c].readers.contains({chunk, phase})) {
            ASSERT_GT(count[c], 0) << what;
            ASSERT_EQ((slots[{number, microbatch % count[c]}]), microbatch) << what << " " << all[c].state;
          }
          if (all[c].chunk == chunk && all[c].phase == phase)
            slots[{number, microbatch % count[c]}] = microbatch;
        }
      }
    }
  }
  ASSERT_EQ(sent, asked) << what;
}

TEST(StageOrder, HandsEverythingOnInTime) {
  for (const PipelineSchedule& schedule : pipeline_schedules()) {
    if (!can_run(schedule)) continue;
    for (const int stages : {1, 2, 3, 4, 8}) {
      for (const int64_t microbatches : {1, 2, 3, 4, 6, 8, 16, 24}) {
        for (const int chunks : {1, 2, 3}) {
          const PipelineShape shape{stages, microbatches, chunks};
          if (!refusal(schedule, shape).empty()) continue;
          play(make_pipeline(schedule, shape), std::string(schedule.name) + " p " + std::to_string(stages) +
                                                   " m " + std::to_string(microbatches));
        }
      }
    }
  }
}

TEST(StageOrder, KeepsAsManyStashesAsTheScheduleHasMicrobatchesUnderWay) {
  for (const int stages : {2, 4, 8}) {
    for (const int64_t microbatches : {1, 3, 8, 16}) {
      const Pipeline pipeline =
          make_pipeline(find_schedule("1f1b"), {.stages = stages, .microbatches = microbatches});
      const std::vector<Crossing> all = crossings(pipeline);
      for (int stage = 0; stage < stages; ++stage) {
        for (size_t c = 0; c < all.size(); ++c) {
          if (all[c].state != "stash" || all[c].chunk != stage) continue;
          EXPECT_EQ(StageOrders(pipeline, all).of(stage).slots[c],
                    std::min<int64_t>(stages - stage, microbatches));
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme
