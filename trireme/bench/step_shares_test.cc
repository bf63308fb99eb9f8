// What launches of several sizes say of an op.
#include "trireme/bench/step_shares.h"

#include <gtest/gtest.h>

namespace trireme::bench {
namespace {

double seconds(const OpShare& share, double roofline_seconds) {
  return roofline_seconds / share.at(roofline_seconds);
}

TEST(StepShares, LaunchesAreMetAndTimesBetweenThemAreOnALine) {
  const OpShare share = share_of({{8, 21}, {1, 7}, {2, 6}});
  EXPECT_DOUBLE_EQ(seconds(share, 1), 7);
  EXPECT_DOUBLE_EQ(seconds(share, 2), 6);  // another kernel
  EXPECT_DOUBLE_EQ(seconds(share, 5), 13.5);
  EXPECT_DOUBLE_EQ(seconds(share, 8), 21);
}

TEST(StepShares, LaunchesOfAboutTheSameSizeAreOnePoint) {
  const OpShare share = share_of({{10, 30}, {12, 36}, {11, 15}});
  ASSERT_EQ(share.points().size(), 1u);
  EXPECT_DOUBLE_EQ(share.at(11), 33.0 / 81);
  EXPECT_DOUBLE_EQ(share.at(1000), 33.0 / 81);
}

// Little work takes no longer than more of it, and no less than in proportion.
TEST(StepShares, BeyondTheSizesThatWereMeasured) {
  const OpShare with_a_begin = share_of({{2, 6}, {4, 8}}), with_another_kernel = share_of({{2, 9}, {4, 8}}),
                too_steep = share_of({{2, 2}, {4, 8}});
  EXPECT_DOUBLE_EQ(seconds(with_a_begin, 1), 5);
  EXPECT_DOUBLE_EQ(seconds(with_another_kernel, 1), 9);
  EXPECT_DOUBLE_EQ(seconds(too_steep, 1), 1);
  for (const OpShare& share : {with_a_begin, with_another_kernel, too_steep}) {
    EXPECT_DOUBLE_EQ(seconds(share, 40), 80);
    EXPECT_GT(share.at(0), 0);
  }
}

}  // namespace
}  // namespace trireme::bench
