// What is counted of each collective, as one call and taken apart in time.
#include "trireme/passes/traffic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/ir/text.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

const std::string kAxis = "axis=\"data\", ways=4, coordinate=1";

Traffic of(const std::string& nodes) {
  return traffic_of(parse_graph("input %x: f32[8,6]\ninput %y: f32[2,6]\n" + nodes, ops()));
}

// Of a whole tensor of 192 bytes each of four ranks sends three quarters, and twice that to add it up.
TEST(Traffic, EveryCollectiveSendsItsShare) {
  const Traffic reduce = of("%s: f32[8,6] = all_reduce(%x) {" + kAxis + ", reduction=\"sum\"}\n");
  EXPECT_THAT(reduce.collectives, ElementsAre(Pair("all_reduce", 1)));
  EXPECT_EQ(reduce.bytes, 2 * 144);
  const Traffic scatter = of("%s: f32[2,6] = reduce_scatter(%x) {" + kAxis + ", dim=0, reduction=\"sum\"}\n");
  EXPECT_THAT(scatter.collectives, ElementsAre(Pair("reduce_scatter", 1)));
  EXPECT_EQ(scatter.bytes, 144);
  const Traffic gather = of("%s: f32[8,6] = all_gather(%y) {" + kAxis + ", dim=0, extent=8}\n");
  EXPECT_THAT(gather.collectives, ElementsAre(Pair("all_gather", 1)));
  EXPECT_EQ(gather.bytes, 144);
  // Of the 48 bytes that it has, the other way around.
  const Traffic turn =
      of("%z: f32[2,4] = slice(%y) {dim=1, size=4, start=0}\n"
         "%s: f32[8,1] = all_to_all(%z) {" +
         kAxis + ", dim=0, extent=8, to_dim=1}\n");
  EXPECT_THAT(turn.collectives, ElementsAre(Pair("all_to_all", 1)));
  EXPECT_EQ(turn.bytes, 24);
}

TEST(Traffic, WhatIsStartedCountsOnceAndItsWaitNot) {
  const std::string sum = " {" + kAxis + ", reduction=\"sum\"";
  const Traffic bucket = of("%p: f32[8,6], %q: f32[2,6] = all_reduce_start(%x, %y)" + sum +
                            "}\n"
                            "%s: f32[8,6], %t: f32[2,6] = all_reduce_wait(%p, %q)" +
                            sum + "}\n");
  EXPECT_THAT(bucket.collectives, ElementsAre(Pair("all_reduce", 1)));
  EXPECT_EQ(bucket.bytes, 2 * 144 + 2 * 36);
  const Traffic both = of("%p: f32[4,12] = reduce_scatter_start(%x)" + sum +
                          ", dims=[0], shapes=[2,8,6]}\n"
                          "%q: f32[8,6] = all_gather_start(%y) {" +
                          kAxis +
                          ", dim=0, extent=8}\n"
                          "%s: f32[2,6] = reduce_scatter_wait(%p)" +
                          sum +
                          ", dims=[0], shapes=[2,8,6]}\n"
                          "%t: f32[8,6] = all_gather_wait(%q) {" +
                          kAxis + ", dim=0, extent=8}\n");
  EXPECT_THAT(both.collectives, ElementsAre(Pair("all_gather", 1), Pair("reduce_scatter", 1)));
  EXPECT_EQ(both.bytes, 2 * 144);
}

TEST(Traffic, OtherNodesSendNothing) {
  const Traffic none = of("%s: f32[8,6] = neg(%x)\n");
  EXPECT_THAT(none.collectives, IsEmpty());
  EXPECT_EQ(none.bytes, 0);
}

}  // namespace
}  // namespace trireme
