#include "trireme/schedule/turn_order.h"

#include <gtest/gtest.h>

#include "trireme/schedule/pipeline_table.h"

namespace trireme {
namespace {

// Two stages, two microbatches, forward 1 s, backward 2 s, messages 3 s on the wire and 4 s late. The first
// microbatch is at stage 1 at 1 + 3 + 4 = 8, the second, which waited for the wire, at 4 + 3 + 4 = 11. Stage
// 1 has them back at 11 and 14 (1f1b: F0 8–9, B0 9–11, F1 11–12, B1 12–14), stage 0 hears of them at 18 and
// 21 and is done at 23.
TEST(TurnOrder, MessagesAreOnTheWireOneAfterAnother) {
  const Pipeline pipeline = make_pipeline(find_schedule("1f1b"), {.stages = 2, .microbatches = 2});
  const std::vector<ChunkSeconds> chunks(2,
                                         {.forward = 1, .backward = 2, .ahead = 3, .back = 3, .latency = 4});
  const TurnOrder order(pipeline);
  const TurnOrder::Ends ends = order.timed(chunks, Wires::kInTurn);
  EXPECT_EQ(ends.first, (std::vector<double>{0, 8}));
  EXPECT_EQ(ends.last, (std::vector<double>{23, 14}));
  // Unless they do not wait: the second is there at 2 + 3 + 4 = 9, which changes nothing behind it.
  EXPECT_EQ(order.timed(chunks, Wires::kFree).last, (std::vector<double>{23, 14}));
}

// One stage that sends quickly and much: only wires that are taken in turn make the other wait.
TEST(TurnOrder, FreeWiresAreABound) {
  const Pipeline pipeline = make_pipeline(find_schedule("gpipe"), {.stages = 2, .microbatches = 4});
  const std::vector<ChunkSeconds> chunks(2, {.forward = 1, .backward = 1, .ahead = 10});
  const TurnOrder order(pipeline);
  EXPECT_DOUBLE_EQ(order.timed(chunks, Wires::kInTurn).last[1], 1 + 4 * 10 + 1 + 4);
  EXPECT_DOUBLE_EQ(order.timed(chunks, Wires::kFree).last[1], 4 + 10 + 1 + 4);
}

}  // namespace
}  // namespace trireme
