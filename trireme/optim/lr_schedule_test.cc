// Learning rates against numbers worked out by hand.
#include "trireme/optim/lr_schedule.h"

#include <gtest/gtest.h>

#include "trireme/base/error.h"

namespace trireme {
namespace {

// lr 0.8, warm-up over 4 steps, 20 steps in all.
double rate(std::string kind, int64_t step, LrScheduleOptions schedule = {}) {
  schedule.kind = std::move(kind);
  schedule.warmup_steps = 4;
  OptimOptions optim;
  optim.lr = 0.8;
  return learning_rate(optim, schedule, 1, 20, step);
}

TEST(LrSchedule, WarmUpIsLinearAndEndsAtTheFullRate) {
  for (const char* kind : {"constant", "step", "linear", "cosine", "inverse_sqrt"}) {
    EXPECT_DOUBLE_EQ(rate(kind, 0), 0.2) << kind;
    EXPECT_DOUBLE_EQ(rate(kind, 2), 0.6) << kind;
    EXPECT_DOUBLE_EQ(rate(kind, 3), 0.8) << kind;
    EXPECT_DOUBLE_EQ(rate(kind, 4), 0.8) << kind;
  }
}

TEST(LrSchedule, NoWarmUp) {
  OptimOptions optim;
  optim.lr = 0.5;
  LrScheduleOptions schedule;
  schedule.warmup_steps = 0;
  for (const char* kind : {"constant", "step", "linear", "cosine", "inverse_sqrt"}) {
    schedule.kind = kind;
    EXPECT_DOUBLE_EQ(learning_rate(optim, schedule, 1, 10, 0), 0.5) << kind;
  }
}

TEST(LrSchedule, Constant) {
  EXPECT_DOUBLE_EQ(rate("constant", 1000), 0.8);
}

TEST(LrSchedule, StepDropsByAFactor) {
  LrScheduleOptions schedule;
  schedule.drop_every = 10;
  schedule.drop_factor = 0.5;
  EXPECT_DOUBLE_EQ(rate("step", 9, schedule), 0.8);
  EXPECT_DOUBLE_EQ(rate("step", 10, schedule), 0.4);
  EXPECT_DOUBLE_EQ(rate("step", 35, schedule), 0.1);
}

TEST(LrSchedule, LinearFallsToTheLeastRate) {
  LrScheduleOptions schedule;
  schedule.min_lr = 0.16;
  EXPECT_DOUBLE_EQ(rate("linear", 12, schedule), 0.48);  // half of the 16 steps after warm-up
  EXPECT_DOUBLE_EQ(rate("linear", 16, schedule), 0.32);
  EXPECT_DOUBLE_EQ(rate("linear", 20, schedule), 0.16);
  EXPECT_DOUBLE_EQ(rate("linear", 99, schedule), 0.16);
}

TEST(LrSchedule, CosineFallsToTheLeastRate) {
  LrScheduleOptions schedule;
  schedule.min_lr = 0.2;
  EXPECT_NEAR(rate("cosine", 8, schedule), 0.2 + 0.3 * (1 + 0.7071067811865476), 1e-15);  // a quarter
  EXPECT_NEAR(rate("cosine", 12, schedule), 0.5, 1e-15);
  EXPECT_NEAR(rate("cosine", 20, schedule), 0.2, 1e-15);
  EXPECT_NEAR(rate("cosine", 99, schedule), 0.2, 1e-15);
}

TEST(LrSchedule, DecayStepsEndTheCurveEarlier) {
  LrScheduleOptions schedule;
  schedule.decay_steps = 12;
  EXPECT_NEAR(rate("cosine", 8, schedule), 0.4, 1e-15);
  EXPECT_NEAR(rate("cosine", 12, schedule), 0, 1e-15);
}

TEST(LrSchedule, InverseSquareRootOfTheStepsSinceTheStartOfWarmUp) {
  EXPECT_DOUBLE_EQ(rate("inverse_sqrt", 16), 0.4);  // √(4 / 16)
  EXPECT_DOUBLE_EQ(rate("inverse_sqrt", 100), 0.16);
}

TEST(LrSchedule, UnknownKindIsRefused) {
  EXPECT_THROW(rate("cosin", 10), Error);
}

TEST(BatchRule, GrowsWithTheBatchAsAsked) {
  OptimOptions optim;
  optim.lr = 0.1;
  optim.base_batch = 256;
  EXPECT_DOUBLE_EQ(scaled_rate(optim, 4096), 0.1);
  optim.batch_rule = "linear";
  EXPECT_DOUBLE_EQ(scaled_rate(optim, 4096), 1.6);
  EXPECT_DOUBLE_EQ(scaled_rate(optim, 64), 0.025);
  optim.batch_rule = "sqrt";
  EXPECT_DOUBLE_EQ(scaled_rate(optim, 4096), 0.4);
  EXPECT_DOUBLE_EQ(scaled_rate(optim, 64), 0.05);
  optim.base_batch = 0;  // automatic
  EXPECT_DOUBLE_EQ(scaled_rate(optim, 64), 0.1);
  optim.base_batch = 1;
  optim.batch_rule = "cube";
  EXPECT_THROW(scaled_rate(optim, 64), Error);
}

TEST(BatchRule, ScalesWarmUpToo) {
  OptimOptions optim;
  optim.lr = 0.1;
  optim.base_batch = 8;
  optim.batch_rule = "linear";
  LrScheduleOptions schedule;
  schedule.warmup_steps = 10;
  EXPECT_DOUBLE_EQ(learning_rate(optim, schedule, 16, 100, 4), 0.1);  // half of 0.2
}

// η(1 + (k − 1) s/W), as Goyal et al. have it: the first step has the rate of the small batch.
TEST(BatchRule, WarmUpMayBeginAtTheRateOfTheBaseBatch) {
  const OptimOptions optim{.lr = 0.1, .batch_rule = "linear", .base_batch = 256};
  LrScheduleOptions schedule{.kind = "constant", .warmup_steps = 10, .warmup_from = "base"};
  for (int64_t step = 0; step < 10; ++step)
    EXPECT_DOUBLE_EQ(learning_rate(optim, schedule, 8192, 100, step),
                     0.1 * (1 + 31 * static_cast<double>(step) / 10));
  for (const int64_t step : {10, 50}) EXPECT_DOUBLE_EQ(learning_rate(optim, schedule, 8192, 100, step), 3.2);
  schedule.warmup_from = "zero";
  EXPECT_DOUBLE_EQ(learning_rate(optim, schedule, 8192, 100, 0), 0.32);
  // Where nothing grows there is nothing to warm up to.
  schedule.warmup_from = "base";
  EXPECT_DOUBLE_EQ(learning_rate({.lr = 0.1}, schedule, 8192, 100, 0), 0.1);
}

TEST(BatchRule, WeightDecayHasARuleOfItsOwn) {
  OptimOptions optim{.lr = 0.1,
                     .weight_decay = 0.1,
                     .groups = {{.match = "a", .weight_decay = 0.2}, {.match = "b"}},
                     .batch_rule = "linear",
                     .base_batch = 256};
  EXPECT_DOUBLE_EQ(with_scaled_decay(optim, 1024).weight_decay, 0.1);
  optim.decay_rule = "sqrt";
  const OptimOptions scaled = with_scaled_decay(optim, 1024);
  EXPECT_DOUBLE_EQ(scaled.weight_decay, 0.2);
  EXPECT_DOUBLE_EQ(scaled.groups[0].weight_decay.value(), 0.4);
  EXPECT_FALSE(scaled.groups[1].weight_decay);
  EXPECT_DOUBLE_EQ(scaled.lr, 0.1);  // which scaled_rate() makes larger
  optim.decay_rule = "linear";
  EXPECT_DOUBLE_EQ(with_scaled_decay(optim, 1024).weight_decay, 0.4);
  optim.base_batch = 0;
  EXPECT_DOUBLE_EQ(with_scaled_decay(optim, 1024).weight_decay, 0.1);
  optim.base_batch = 1;
  optim.decay_rule = "cube";
  EXPECT_THROW(with_scaled_decay(optim, 64), Error);
}

}  // namespace
}  // namespace trireme
