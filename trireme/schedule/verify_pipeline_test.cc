// All schedules are sound in all shapes; what is broken by hand is refused with what is wrong with it.
#include "trireme/schedule/verify_pipeline.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/support/pipelines.h"
#include "trireme/base/error.h"
#include "trireme/schedule/pipeline_schedules.h"
#include "trireme/schedule/pipeline_table.h"

namespace trireme {
namespace {

using testing::HasSubstr;

TEST(VerifyPipeline, TakesAllSchedulesInAllShapes) {
  int64_t shapes = 0, refused = 0;
  for (const PipelineSchedule& schedule : pipeline_schedules()) {
    for (const auto versions : {PipelineShape::Versions::kNewest, PipelineShape::Versions::kVerticalSync}) {
      for (int stages = 1; stages <= 16; ++stages) {
        for (int64_t microbatches = 1; microbatches <= 64; ++microbatches) {
          for (int chunks = 1; chunks <= 4; ++chunks) {
            const PipelineShape shape{stages, microbatches, chunks, versions};
            if (!refusal(schedule, shape).empty()) {
              ++refused;
              continue;
            }
            ++shapes;
            const std::string what = fmt::format("{}: {} stages, {} microbatches, {} chunks", schedule.name,
                                                 stages, microbatches, chunks);
            try {
              EXPECT_EQ(verify(make_pipeline(schedule, shape)).buffers, 1) << what;
            } catch (const Error& error) {
              ADD_FAILURE() << what << ": " << error.what();
            }
          }
        }
      }
    }
  }
  // Six schedules take any number of stages and microbatches, of which one with and without vertical sync;
  // chimera even stages; 2bw and interleaved, in three numbers of chunks, by their microbatches.
  int64_t multiples = 0, no_fewer = 0;
  for (int64_t stages = 1; stages <= 16; ++stages) {
    multiples += 64 / stages;
    no_fewer += 64 - stages + 1;
  }
  EXPECT_EQ(shapes, 7 * 16 * 64 + 8 * 64 + no_fewer + 3 * multiples);
  EXPECT_EQ(shapes + refused, 9 * 2 * 16 * 64 * 4);
}

std::string complaint(const Pipeline& pipeline) {
  try {
    verify(pipeline);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

struct Breakage {
  const char* name;
  const char* schedule;
  std::function<void(Pipeline&)> breaks;
  const char* message;
};

size_t find(const Pipeline& pipeline, int stage, Phase phase, int64_t microbatch) {
  const std::vector<ChunkTurn>& order = pipeline.order[stage];
  const auto found = std::ranges::find_if(
      order, [&](const ChunkTurn& turn) { return turn.phase == phase && turn.microbatch == microbatch; });
  EXPECT_NE(found, order.end());
  return static_cast<size_t>(found - order.begin());
}

TEST(VerifyPipeline, RefusesWhatIsBroken) {
  const std::vector<Breakage> list = {
      {"no microbatches", "1f1b", [](auto& p) { p.microbatches = 0; }, "4 chunks and 0 microbatches"},
      {"a stage without a list", "1f1b", [](auto& p) { p.order.pop_back(); },
       "4 stages hold chunks, but 3 have turns"},
      {"a chunk that is not there", "1f1b", [](auto& p) { p.holds[2] = {4}; },
       "stage 2 holds chunk 4, but there are 4"},
      {"a chunk twice", "1f1b",
       [](auto& p) {
         p.holds[2] = {2, 2};
       },
       "stage 2 holds chunk 2 twice"},
      {"a chunk that nobody has", "1f1b", [](auto& p) { p.holds[2] = {1}; }, "no stage holds chunk 2"},
      {"a turn of another's chunk", "1f1b", [](auto& p) { p.order[1][0].chunk = 2; },
       "stage 1 does forward of chunk 2, microbatch 0, but it holds chunk 1 only"},
      {"a turn moved to a stage that lacks the chunk", "chimera",
       [](auto& p) {
         p.order[2].insert(p.order[2].begin(), p.order[0].front());
         p.order[0].erase(p.order[0].begin());
       },
       "stage 2 does forward of chunk 0, microbatch 0, but it holds chunk 2, 1 only"},
      {"a microbatch too many", "1f1b", [](auto& p) { p.order[1][0].microbatch = 4; },
       "stage 1 does forward of chunk 1, microbatch 4, but a step has 4 microbatches"},
      {"a microbatch below 0", "2bw", [](auto& p) { p.order[1][0].microbatch = -1; },
       "microbatch -1, but a step has"},
      {"a turn left out", "gpipe", [](auto& p) { p.order[2].erase(p.order[2].begin() + 5); },
       "no stage does backward of chunk 2, microbatch 1"},
      {"a weight's turn left out", "zb_h1", [](auto& p) { p.order[3].pop_back(); },
       "no stage does weight of chunk 3, microbatch 3"},
      {"a turn twice", "gpipe", [](auto& p) { p.order[2].insert(p.order[2].begin() + 2, p.order[2][1]); },
       "stage 2 does forward of chunk 2, microbatch 1 twice"},
      {"a turn by both holders", "chimera",
       [](auto& p) { p.order[3].insert(p.order[3].begin(), p.order[0].front()); },
       "stages 0 and 3 both do forward of chunk 0, microbatch 0"},
      {"forward and backward by different holders", "chimera",
       [](auto& p) {
         p.order[3].insert(p.order[3].begin(), p.order[0].front());
         p.order[0].erase(p.order[0].begin());
       },
       "stage 0 does backward of chunk 0, microbatch 0, but what its forward kept is on stage 3"},
      {"backward before forward", "1f1b", [](auto& p) { std::swap(p.order[3][0], p.order[3][1]); },
       "stage 3 does backward of chunk 3, microbatch 0 before its forward"},
      {"weight before backward", "zb_h1",
       [](auto& p) {
         std::swap(p.order[0][find(p, 0, Phase::kWeight, 0)], p.order[0][find(p, 0, Phase::kBackward, 0)]);
       },
       "stage 0 does weight of chunk 0, microbatch 0 before its backward"},
      {"microbatches swapped", "1f1b", [](auto& p) { std::swap(p.order[0][0], p.order[0][1]); },
       "stage 0 does forward of chunk 0, microbatch 0 after microbatch 1; microbatches of a chunk ascend"},
      {"a stage that wants a gradient before it sent enough", "1f1b",
       [](auto& p) {
         // The last stage wants two forwards before its first backward; the first sends one and waits.
         std::swap(p.order[3][1], p.order[3][2]);
         std::rotate(p.order[0].begin() + 1, p.order[0].begin() + find(p, 0, Phase::kBackward, 0),
                     p.order[0].begin() + find(p, 0, Phase::kBackward, 0) + 1);
       },
       "the stages wait for each other: stage 0 can not do backward of chunk 0, microbatch 0 before stage 1 "
       "does backward of chunk 1, microbatch 0, stage 1 can not do"},
      {"weights that are not there yet", "pipedream", [](auto& p) { p.order[3][0].version = 1; },
       "stage 3 does forward of chunk 3, microbatch 0 with version 1 of the weights, but 0 is the newest"},
      {"a backward with other weights than its forward", "pipedream",
       [](auto& p) { ++p.order[0][1].version; },
       "stage 0 does backward of chunk 0, microbatch 4 with version 2 of the weights, its forward with "
       "version 1"},
      {"an update before its gradient", "pipedream", [](auto& p) { std::swap(p.order[3][1], p.order[3][2]); },
       "stage 3 does update of chunk 3, microbatch 0 when it has the gradients up to microbatch -1"},
      {"an update too late", "pipedream",
       [](auto& p) {
         p.order[3][3].version = p.order[3][4].version = 0;
         std::rotate(p.order[3].begin() + 2, p.order[3].begin() + 3, p.order[3].begin() + 5);
       },
       "stage 3 does update of chunk 3, microbatch 0 when it has the gradients up to microbatch 1"},
      {"an update that makes another version", "2bw", [](auto& p) { p.order[1].back().version = 2; },
       "stage 1 does update of chunk 1, microbatch 3 as version 2; 1 expected"},
      {"a stage that is never updated", "2bw", [](auto& p) { p.order[1].pop_back(); },
       "stage 1 has gradients of chunk 1 up to microbatch 15, but never updates it"},
  };
  for (const Breakage& one : list) {
    Pipeline pipeline = make(one.schedule);
    ASSERT_EQ(complaint(pipeline), "");
    one.breaks(pipeline);
    EXPECT_THAT(complaint(pipeline), HasSubstr(one.message)) << one.name;
  }
}

// Every turn of every schedule is needed once, where it is.
TEST(VerifyPipeline, RefusesEveryTurnDroppedDoubledMovedOrChanged) {
  for (const PipelineSchedule& schedule : pipeline_schedules()) {
    const Pipeline sound = make(schedule.name);
    const auto expect_refused = [&](const char* how,
                                    const std::function<void(std::vector<ChunkTurn>&, size_t)>& breaks) {
      for (size_t stage = 0; stage < sound.order.size(); ++stage) {
        for (size_t i = 0; i < sound.order[stage].size(); ++i) {
          Pipeline broken = sound;
          breaks(broken.order[stage], i);
          EXPECT_NE(complaint(broken), "") << schedule.name << ", stage " << stage << ": "
                                           << to_string(sound.order[stage][i]) << " " << how;
        }
      }
    };
    using Turns = std::vector<ChunkTurn>;
    expect_refused("dropped",
                   [](Turns& turns, size_t i) { turns.erase(turns.begin() + static_cast<int64_t>(i)); });
    expect_refused("doubled", [](Turns& turns, size_t i) { turns.push_back(turns[i]); });
    expect_refused("of the next chunk",
                   [](Turns& turns, size_t i) { turns[i].chunk = (turns[i].chunk + 1) % 4; });
    expect_refused("of the next microbatch", [](Turns& turns, size_t i) { ++turns[i].microbatch; });
    expect_refused("with other weights", [](Turns& turns, size_t i) { turns[i].version += 1; });
    expect_refused("as another phase", [](Turns& turns, size_t i) {
      turns[i].phase = turns[i].phase == Phase::kForward ? Phase::kBackward : Phase::kForward;
    });
    expect_refused("swapped with the next of its kind", [](Turns& turns, size_t i) {
      size_t j = i == 0 ? 1 : i - 1;
      for (size_t k = 0; k < turns.size(); ++k) {
        if (k != i && turns[k].phase == turns[i].phase && turns[k].chunk == turns[i].chunk) j = k;
      }
      if (turns[j].phase == turns[i].phase)
        std::swap(turns[i], turns[j]);
      else
        turns.pop_back();  // the only one of its kind: 2bw's update, which has no other to be swapped with
    });
  }
}

// The example of README.md.
TEST(VerifyPipeline, TakesAScheduleOfOnesOwn) {
  for (const int64_t microbatches : {1, 2, 5, 8}) {
    const PipelineShape shape{3, microbatches};
    Pipeline pipeline = one_chunk_per_stage(shape);
    for (int stage = 0; stage < shape.stages; ++stage) {
      std::vector<ChunkTurn>& turns = pipeline.order.emplace_back();
      for (int64_t pair = 0; pair < shape.microbatches; pair += 2) {
        const int64_t end = std::min(pair + 2, shape.microbatches);
        for (int64_t k = pair; k < end; ++k) turns.push_back({Phase::kForward, stage, k});
        for (int64_t k = pair; k < end; ++k) turns.push_back({Phase::kBackward, stage, k});
      }
    }
    EXPECT_THAT(verify(pipeline).live, testing::Each(std::min<int64_t>(2, microbatches)));
  }
}

TEST(VerifyPipeline, CountsTheRoomForMessages) {
  // Stage 1 does forward of chunk 3 before it takes the second microbatch of chunk 1; stage 0 sends it two
  // more of those before it comes to chunk 2.
  using enum Phase;
  const Pipeline pipeline{3,
                          4,
                          {{0, 2}, {1, 3}},
                          {{{kForward, 0, 0},
                            {kForward, 0, 1},
                            {kForward, 0, 2},
                            {kForward, 2, 0},
                            {kForward, 2, 1},
                            {kForward, 2, 2},
                            {kBackward, 2, 0},
                            {kBackward, 2, 1},
                            {kBackward, 2, 2},
                            {kBackward, 0, 0},
                            {kBackward, 0, 1},
                            {kBackward, 0, 2}},
                           {{kForward, 1, 0},
                            {kForward, 3, 0},
                            {kBackward, 3, 0},
                            {kForward, 1, 1},
                            {kForward, 1, 2},
                            {kForward, 3, 1},
                            {kBackward, 3, 1},
                            {kForward, 3, 2},
                            {kBackward, 3, 2},
                            {kBackward, 1, 0},
                            {kBackward, 1, 1},
                            {kBackward, 1, 2}}}};
  EXPECT_EQ(verify(pipeline).buffers, 2);
  EXPECT_EQ(verify(make("1f1b")).buffers, 1);
}

}  // namespace
}  // namespace trireme
