// The orders that pipeline schedules return for small shapes, what they refuse, and how steps follow one
// another.
#include "trireme/schedule/pipeline.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/pipelines.h"
#include "trireme/base/error.h"
#include "trireme/plan/plan.h"
#include "trireme/schedule/pipeline_table.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Chunks = std::vector<int>;

// "F0.2" is the forward of chunk 0, microbatch 2; with a version, "F0.2@1".
std::string order_text(const Pipeline& pipeline, int stage, bool with_versions = false) {
  std::string text;
  for (const ChunkTurn& turn : pipeline.order.at(stage)) {
    text += fmt::format("{}{}{}.{}", text.empty() ? "" : " ",
                        static_cast<char>(name(turn.phase)[0] - 'a' + 'A'), turn.chunk, turn.microbatch);
    if (with_versions) text += fmt::format("@{}", turn.version);
  }
  return text;
}

TEST(PipelineSchedules, OrdersOfSmallOnes) {
  const Pipeline gpipe = make("gpipe", 2, 2);
  EXPECT_EQ(order_text(gpipe, 0), "F0.0 F0.1 B0.0 B0.1");
  EXPECT_EQ(order_text(gpipe, 1), "F1.0 F1.1 B1.0 B1.1");
  const Pipeline one = make("1f1b", 3, 4);
  EXPECT_EQ(order_text(one, 0), "F0.0 F0.1 F0.2 B0.0 F0.3 B0.1 B0.2 B0.3");
  EXPECT_EQ(order_text(one, 1), "F1.0 F1.1 B1.0 F1.2 B1.1 F1.3 B1.2 B1.3");
  EXPECT_EQ(order_text(one, 2), "F2.0 B2.0 F2.1 B2.1 F2.2 B2.2 F2.3 B2.3");
  const Pipeline h1 = make("zb_h1", 2, 3);
  EXPECT_EQ(order_text(h1, 0), "F0.0 F0.1 B0.0 W0.0 F0.2 B0.1 W0.1 B0.2 W0.2");
  EXPECT_EQ(order_text(h1, 1), "F1.0 B1.0 F1.1 B1.1 W1.0 F1.2 B1.2 W1.1 W1.2");
  const Pipeline h2 = make("zb_h2", 2, 3);
  EXPECT_EQ(order_text(h2, 0), "F0.0 F0.1 F0.2 B0.0 W0.0 B0.1 W0.1 B0.2 W0.2");
  EXPECT_EQ(order_text(h2, 1), "F1.0 B1.0 F1.1 B1.1 F1.2 B1.2 W1.0 W1.1 W1.2");
}

TEST(PipelineSchedules, OrdersOfThoseWithSeveralChunksAStage) {
  const Pipeline interleaved = make("interleaved", 2, 2, 2);
  EXPECT_THAT(interleaved.holds, ElementsAre(Chunks{0, 2}, Chunks{1, 3}));
  EXPECT_EQ(order_text(interleaved, 0), "F0.0 F0.1 F2.0 F2.1 B2.0 B2.1 B0.0 B0.1");
  EXPECT_EQ(order_text(interleaved, 1), "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 B1.0 B1.1");
  const Pipeline v = make("zb_v", 2, 3);
  EXPECT_THAT(v.holds, ElementsAre(Chunks{0, 3}, Chunks{1, 2}));
  EXPECT_EQ(order_text(v, 0),
            "F0.0 F0.1 F0.2 F3.0 B3.0 W3.0 F3.1 B3.1 W3.1 B0.0 W0.0 F3.2 B3.2 W3.2 B0.1 W0.1 B0.2 W0.2");
  EXPECT_EQ(order_text(v, 1),
            "F1.0 F2.0 F1.1 F2.1 B2.0 W2.0 F1.2 B1.0 W1.0 F2.2 B2.1 W2.1 B1.1 B2.2 B1.2 W1.1 W2.2 W1.2");
  // The picture in the paper on Chimera, with its microbatches 0, 2, 1, 3 called 0, 1, 2, 3.
  const Pipeline chimera = make("chimera", 4, 4);
  EXPECT_THAT(chimera.holds, ElementsAre(Chunks{0, 3}, Chunks{1, 2}, Chunks{2, 1}, Chunks{3, 0}));
  EXPECT_EQ(order_text(chimera, 0), "F0.0 F0.2 F3.1 B3.1 F3.3 B3.3 B0.0 B0.2");
  EXPECT_EQ(order_text(chimera, 1), "F1.0 F2.1 F1.2 F2.3 B2.1 B1.0 B2.3 B1.2");
}

TEST(PipelineSchedules, AsynchronousOnesBeginWithTheNextStep) {
  const Pipeline stashing = make("pipedream", 2, 2);
  EXPECT_EQ(order_text(stashing, 0, true), "F0.1@0 B0.0@-1 U0.0@1 F0.2@1 B0.1@0 U0.1@2");
  EXPECT_EQ(order_text(stashing, 1, true), "F1.0@0 B1.0@0 U1.0@1 F1.1@1 B1.1@1 U1.1@2");
  const Pipeline synchronised =
      make_pipeline(find_schedule("pipedream"),
                    {.stages = 2, .microbatches = 2, .versions = PipelineShape::Versions::kVerticalSync});
  EXPECT_EQ(order_text(synchronised, 0, true), order_text(stashing, 0, true));
  EXPECT_EQ(order_text(synchronised, 1, true), "F1.0@-1 B1.0@-1 U1.0@1 F1.1@0 B1.1@0 U1.1@2");
  const Pipeline two = make("2bw", 2, 2);
  EXPECT_EQ(order_text(two, 0, true), "F0.1@-1 B0.0@-1 F0.2@0 B0.1@-1 U0.1@1");
  EXPECT_EQ(order_text(two, 1, true), "F1.0@-1 B1.0@-1 F1.1@-1 B1.1@-1 U1.1@1");
}

TEST(Unroll, StepsFollowWithoutADrainFromEmptyToEmpty) {
  const Pipeline one = unroll(make("pipedream", 2, 2), 1);
  EXPECT_EQ(order_text(one, 0, true), "F0.0@0 F0.1@0 B0.0@0 U0.0@1 B0.1@0 U0.1@2");
  const Pipeline three = unroll(make("2bw", 2, 2), 3);
  EXPECT_EQ(three.microbatches, 6);
  EXPECT_EQ(order_text(three, 0, true),
            "F0.0@0 F0.1@0 B0.0@0 F0.2@0 B0.1@0 U0.1@1 F0.3@0 B0.2@0 F0.4@1 B0.3@0 U0.3@2 F0.5@1 B0.4@1 "
            "B0.5@1 U0.5@3");
  // More stages ahead than a step has microbatches.
  EXPECT_EQ(order_text(unroll(make("pipedream", 4, 1), 2), 0, true),
            "F0.0@0 F0.1@0 B0.0@0 U0.0@1 B0.1@0 U0.1@2");
  const Pipeline synchronous = make("1f1b", 3, 4);
  EXPECT_EQ(unroll(synchronous, 1).order, synchronous.order);
}

TEST(PipelineTable, RefusesShapesWithTheReason) {
  const auto complaint = [](std::string_view name, const PipelineShape& shape) {
    try {
      make_pipeline(find_schedule(name), shape);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(complaint("chimera", {3, 6}),
              HasSubstr("even number of stages, but there are 3: its two pipelines"));
  EXPECT_THAT(complaint("interleaved", {4, 6, 2}), HasSubstr("a multiple of the 4 stages, but there are 6"));
  EXPECT_THAT(complaint("interleaved", {4, 8, 1}), HasSubstr("2 chunks a stage or more, but 1 is asked for"));
  EXPECT_THAT(complaint("zb_v", {4, 8, 3}), HasSubstr("zb_v has 2 chunks a stage, but 3 are asked for"));
  EXPECT_THAT(complaint("1f1b", {4, 8, 2}), HasSubstr("1f1b has 1 chunk a stage, but 2 are asked for"));
  EXPECT_THAT(complaint("2bw", {4, 3}),
              HasSubstr("no fewer microbatches than the 4 stages, but there are 3"));
  EXPECT_THAT(complaint("gpipe", {0, 3}), HasSubstr("a pipeline of 0 stages"));
  EXPECT_THAT(complaint("1f1b", {2, 2, 1, PipelineShape::Versions::kVerticalSync}),
              HasSubstr("no vertical sync"));
  EXPECT_EQ(complaint("interleaved", {4, 8, 3}), "");
  EXPECT_THAT([] { find_schedule("1f1"); }, testing::ThrowsMessage<Error>(HasSubstr("did you mean '1f1b'?")));
}

TEST(PipelineTable, HasTheNamesOfPlans) {
  for (const PipelineSchedule& schedule : pipeline_schedules())
    EXPECT_NO_THROW(
        parse_plan(fmt::format(R"({{"mesh": "pipe:2", "schedule": "{}"}})", schedule.name), "here"));
  EXPECT_EQ(pipeline_schedules().size(), 9u);
}

TEST(PipelineOf, IsWhatThePlanAsksForWhereItCanBeRun) {
  const auto of = [](const std::string& keys, int64_t microbatches) {
    return pipeline_of(parse_plan(R"({"mesh": "data:2 pipe:4")" + keys + "}", "here"), microbatches);
  };
  const auto complaint = [&](const std::string& keys, int64_t microbatches = 8) -> std::string {
    try {
      of(keys, microbatches);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(of("", 8).order, make_pipeline(find_schedule("1f1b"), {.stages = 4, .microbatches = 8}).order);
  EXPECT_EQ(of(R"(, "schedule": "interleaved", "chunks": 3)", 8).chunks, 12);
  EXPECT_THAT(complaint(R"(, "schedule": "pipedream")"),
              HasSubstr("so that a step has one, but there are 8"));
  EXPECT_EQ(complaint(R"(, "schedule": "pipedream", "vertical_sync": true)", 1), "");
  EXPECT_THAT(complaint(R"(, "schedule": "2bw", "vertical_sync": true)"), HasSubstr("has no vertical sync"));
  EXPECT_EQ(complaint(R"(, "schedule": "2bw")"), "");
  EXPECT_EQ(complaint(R"(, "schedule": "chimera")"), "");
  EXPECT_THAT(complaint(R"(, "schedule": "chimera")", 1), HasSubstr("one microbatch"));
  EXPECT_EQ(complaint(R"(, "schedule": "zb_v")"), "");
}

}  // namespace
}  // namespace trireme
