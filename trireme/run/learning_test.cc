// What was learned, how fast, and when a target was reached, on courses whose answers are known.
#include "trireme/run/learning.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "trireme/base/error.h"

namespace trireme {
namespace {

// From 4 down to 2 in a line, half a second and 100 records a step.
std::vector<LearningStep> line(int steps = 200) {
  std::vector<LearningStep> result;
  for (int i = 0; i < steps; ++i) result.push_back({1.0 + i, 4 - 2.0 * i / (steps - 1), 0.5, 100});
  return result;
}

TEST(Learning, PerSecondIsPerRecordTimesRecordsPerSecond) {
  const Learning learning = learning_of(line());
  const double slope = 2.0 / 199;  // a step
  EXPECT_NEAR(learning.per_record(), slope / 100, 1e-12);
  EXPECT_NEAR(learning.records_per_second(), 200, 1e-9);
  EXPECT_NEAR(learning.per_second(), slope / 0.5, 1e-12);
  EXPECT_DOUBLE_EQ(learning.per_second(), learning.per_record() * learning.records_per_second());
}

TEST(Learning, PartsAddUpToTheWhole) {
  std::vector<LearningStep> steps = line();
  for (LearningStep& step : steps) step.loss = 1 / step.step + std::sin(step.step * 12.9898) * 0.01;
  const Learning whole = learning_of(steps);
  double learned = 0, seconds = 0, records = 0;
  for (const Learning& part : learning_by_part(steps, 4)) {
    learned += part.learned();
    seconds += part.seconds;
    records += part.records;
  }
  EXPECT_NEAR(learned, whole.learned(), 1e-12);
  EXPECT_NEAR(seconds, whole.seconds, 1e-9);
  EXPECT_NEAR(records, whole.records, 1e-9);
  EXPECT_EQ(learning_by_part(line(3), 10).size(), 2) << "no more parts than there are steps between";
}

TEST(Learning, NoiseOfOneStepIsNoTargetReached) {
  std::vector<LearningStep> steps = line();
  steps[20].loss = 0;
  const auto when = reached(steps, 3);
  ASSERT_TRUE(when);
  // The mean over ten steps lies four and a half behind the line, which is at 3 after 99.5 steps.
  EXPECT_NEAR(when->step, 105, 1);
  EXPECT_NEAR(when->seconds, when->step * 0.5, 1e-9);
  EXPECT_NEAR(when->records, when->step * 100, 1e-9);
  EXPECT_FALSE(reached(steps, 1.9));
}

TEST(Learning, StepsWithoutALossTakeTimeAllTheSame) {
  std::vector<LearningStep> steps = line(4);
  steps[1].loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_DOUBLE_EQ(learning_of(steps).seconds, 1.5);
  EXPECT_THROW(learning_of(line(1)), Error);
  EXPECT_THROW(learning_of({}), Error);
}

TEST(SampleSpread, IsThatOfASample) {
  const std::vector<double> values{1, 2, 3, 6};
  const SampleSpread spread = spread_of(values);
  EXPECT_DOUBLE_EQ(spread.mean, 3);
  EXPECT_DOUBLE_EQ(spread.deviation, std::sqrt(14.0 / 3));
  EXPECT_EQ(spread.least, 1);
  EXPECT_EQ(spread.most, 6);
  EXPECT_EQ(spread_of(std::vector<double>{5}).deviation, 0);
}

}  // namespace
}  // namespace trireme
