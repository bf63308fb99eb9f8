// The formula against the loss that it is to make smallest, and the steps that follow from it.
#include "trireme/run/checkpoint_interval.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace trireme {
namespace {

TEST(CheckpointInterval, LosesLessThanIntervalsAroundIt) {
  const double cost = 30, between_failures = 6 * 3600;
  // The share of time for checkpoints, and for the half of an interval that a failure loses.
  const auto lost = [&](double interval) { return cost / interval + interval / 2 / between_failures; };
  const double best = young_daly_seconds(cost, between_failures);
  EXPECT_NEAR(best, 1138.4, 0.1);
  for (const double factor : {0.5, 0.9, 0.99, 1.01, 1.1, 2.0}) EXPECT_LT(lost(best), lost(factor * best));
}

TEST(CheckpointInterval, FollowsFromWhatACheckpointAndAStepTake) {
  using std::chrono::milliseconds;
  const RankOptions alone;
  CheckpointInterval interval(1, alone);  // an hour
  interval.stepped(100);
  EXPECT_EQ(interval.next(), 100 + CheckpointInterval::kFirst);
  EXPECT_FALSE(interval.is_due(109));
  EXPECT_TRUE(interval.is_due(110));
  std::this_thread::sleep_for(milliseconds(20));  // ten steps, at least 2 ms each
  const auto began = Clock::now() - milliseconds(0);
  std::this_thread::sleep_for(milliseconds(8));
  const std::string line = interval.wrote(110, began);
  EXPECT_THAT(line, ::testing::HasSubstr("a failure every 1 h"));
  // √(2 · 0.008 s · 3600 s) = 7.6 s are 3,795 steps of 2 ms. On a busy machine both times are longer, up to
  // seconds.
  EXPECT_GT(interval.next(), 110 + 10);
  EXPECT_LT(interval.next(), 110 + 400000);
  interval.stepped(111);  // changes nothing
  EXPECT_FALSE(interval.is_due(111));
}

}  // namespace
}  // namespace trireme
