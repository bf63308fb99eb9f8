// Timelines as text and as pictures.
#include "trireme/schedule/draw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "tests/support/pipelines.h"
#include "trireme/schedule/pipeline_table.h"

namespace trireme {
namespace {

using testing::HasSubstr;

int count(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  return static_cast<int>(
      std::distance(std::sregex_iterator(text.begin(), text.end(), expression), std::sregex_iterator()));
}

TEST(DrawText, ACharacterForAUnitOfTime) {
  const Pipeline pipeline = make("1f1b", 2, 3);
  const Timeline line = timeline(pipeline, {});
  EXPECT_EQ(draw_text(pipeline, line, 12),
            "stage 0  FF..B0FB1.B2\n"
            "stage 1  .FB0FB1FB2..\n");
  EXPECT_EQ(draw_text(pipeline, line, 24),
            "stage 0  F0F1....B0--F2B1--..B2--\n"
            "stage 1  ..F0B0--F1B1--F2B2--....\n");
  EXPECT_EQ(draw_text(pipeline, timeline(pipeline, {.message = 0.5})),
            "stage 0  F0F1......B0--F2B1--....B2--\n"
            "stage 1  ...F0B0--F1B1--..F2B2--.....\n");
}

TEST(DrawText, SmallLettersAreLaterChunksAndLongLinesAreShortened) {
  const Pipeline pipeline = make("zb_v", 2, 3);
  const Timeline line = timeline(pipeline, {});
  EXPECT_EQ(draw_text(pipeline, line, 20),
            "stage 0  FFFfbwfbwBWfbwBWBW.\n"
            "stage 1  .FfFfbwFBWfbwBbBWwW\n");
  for (const size_t columns : {10u, 19u, 37u}) {
    const std::string text = draw_text(pipeline, line, static_cast<int>(columns));
    EXPECT_EQ(text.find('\n'), std::string("stage 0  ").size() + std::min<size_t>(columns, 19));
  }
}

TEST(DrawSvg, HasAllTurnsMessagesAndTheBubble) {
  for (const PipelineSchedule& schedule : pipeline_schedules()) {
    const Pipeline pipeline = unroll(make(schedule.name, 4, 8), 1);
    const Timeline line = timeline(pipeline, {.chunks = {{1, 1, 1, 0.5}}});
    int turns = 0, messages = 0;
    for (const std::vector<ChunkTurn>& order : pipeline.order) turns += static_cast<int>(order.size());
    // Forward and backward between neighbouring chunks; the two of zb_v on the last stage need none.
    messages = 2 * 8 * (pipeline.chunks - 1) - (schedule.name == "zb_v" ? 2 * 8 : 0);
    const std::string svg = draw_svg(pipeline, line, "a title");
    const int grey = count(svg, R"(<rect [^>]*fill="#dddddd")");
    EXPECT_EQ(grey, 4 + 1) << schedule.name;  // a bar for each stage and one in the legend
    EXPECT_EQ(count(svg, R"(<rect [^>]*fill-opacity)"), turns) << schedule.name;
    EXPECT_EQ(count(svg, "<line "), messages) << schedule.name;
    EXPECT_THAT(svg, HasSubstr(caption(line)));
    EXPECT_THAT(svg, HasSubstr("a title"));
    EXPECT_EQ(count(svg, "<(svg|g|text|style)[ >]"), count(svg, "</(svg|g|text|style)>")) << schedule.name;
  }
}

TEST(Caption, SaysTheBubbleAndWhereStagesEndLate) {
  const Pipeline one = make("1f1b", 4, 8);
  EXPECT_EQ(caption(timeline(one, {})), "step 33, bubble 27.27 %, 37.50 % of the work");
  const Pipeline two = make("zb_h2", 4, 8);
  EXPECT_EQ(
      caption(timeline(two, {})),
      "step 24, bubble 0.00 %, 0.00 % of the work; from the first stage's beginning to the last one's end 27");
}

}  // namespace
}  // namespace trireme
