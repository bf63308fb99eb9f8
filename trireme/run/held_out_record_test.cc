// The best checkpoint and patience, from losses alone.
#include "trireme/run/held_out_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/error_of.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

Config config_of(bool keep_best, int64_t patience) {
  Config config;
  config.run.keep_best = keep_best;
  config.train.patience = patience;
  return config;
}

HeldOutRecord record_of(bool keep_best, int64_t patience) {
  return {config_of(keep_best, patience), HeldOutRecord::HeldOut::kSome};
}

TEST(HeldOutRecord, TheBestIsTheFirstWithTheLowestLoss) {
  HeldOutRecord record = record_of(true, 0);
  EXPECT_FALSE(record.best());
  EXPECT_TRUE(record.add(10, 3));
  EXPECT_TRUE(record.add(20, 2));
  EXPECT_FALSE(record.add(30, 2));  // no better
  EXPECT_FALSE(record.add(40, 2.5));
  EXPECT_FALSE(record.add(50, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_EQ(record.best()->step, 20);
  EXPECT_EQ(record.best()->loss, 2);
  EXPECT_FALSE(record.out_of_patience());  // 0: never
}

TEST(HeldOutRecord, WithoutKeepBestNoneIs) {
  HeldOutRecord record = record_of(false, 0);
  EXPECT_FALSE(record.add(10, 3));
  EXPECT_FALSE(record.best());
}

TEST(HeldOutRecord, PatienceCountsEvaluationsInARowWithoutALowerLoss) {
  HeldOutRecord record = record_of(false, 2);
  record.add(10, 3);
  record.add(20, 3);
  EXPECT_FALSE(record.out_of_patience());
  record.add(30, 2.9);  // counts anew
  record.add(40, 2.95);
  EXPECT_FALSE(record.out_of_patience());
  record.add(50, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(record.out_of_patience());
}

TEST(HeldOutRecord, ACheckpointThatWasNotWrittenIsNotTheBest) {
  HeldOutRecord record = record_of(true, 3);
  record.add(10, 3);
  record.add(20, 2);
  record.not_saved(15);  // of another step
  EXPECT_EQ(record.best()->step, 20);
  record.not_saved(20);
  EXPECT_EQ(record.best()->step, 10);
  EXPECT_TRUE(record.add(30, 2.5));  // the best of those that are there
  EXPECT_EQ(record.evaluations_since_lowest(), 1);
}

TEST(HeldOutRecord, GoesOnWithWhatACheckpointKept) {
  HeldOutRecord record = record_of(true, 3);
  record.add(10, 2);
  record.add(20, 2.1);
  const std::string extra = record.added_to(R"({"other": 1})");
  EXPECT_THAT(extra, HasSubstr(R"("other":1)"));
  HeldOutRecord again = record_of(true, 3);
  again.restore(extra, "here");
  EXPECT_EQ(again.best()->step, 10);
  EXPECT_FALSE(again.add(30, 2.05));
  EXPECT_FALSE(again.out_of_patience());
  again.add(40, 2.05);
  EXPECT_TRUE(again.out_of_patience());
  EXPECT_EQ(best_checkpoint(extra, "here")->step, 10);

  HeldOutRecord without = record_of(false, 0);  // nothing is kept for it any more
  without.restore(extra, "here");
  EXPECT_FALSE(without.best());
  EXPECT_EQ(record_of(true, 0).added_to("{}"), "{}");
  EXPECT_FALSE(best_checkpoint("{}", "here"));
}

TEST(HeldOutRecord, DamageIsToldWithItsPlace) {
  const auto error = [](const char* extra) {
    return error_of([&] {
      HeldOutRecord record = record_of(true, 1);
      record.restore(extra, "state.json");
    });
  };
  EXPECT_THAT(error("[]"), HasSubstr("state.json"));
  EXPECT_THAT(error(R"({"held_out": 3})"), HasSubstr("'held_out'"));
  EXPECT_THAT(error(R"({"held_out": {"lowest": 3}})"), HasSubstr("'evaluations_since_lowest'"));
  EXPECT_THAT(error(R"({"held_out": {"evaluations_since_lowest": -1}})"), HasSubstr("damaged"));
  EXPECT_THAT(error(R"({"held_out": {"evaluations_since_lowest": 1, "lowest": "x"}})"),
              HasSubstr("'lowest'"));
  EXPECT_THAT(error(R"({"held_out": {"evaluations_since_lowest": 1, "best": {"step": 1.5, "loss": 1}}})"),
              HasSubstr("'step'"));
}

TEST(HeldOutRecord, NeedsHeldOutData) {
  const auto error = [](const Config& config) {
    return error_of([&] { HeldOutRecord(config, HeldOutRecord::HeldOut::kNone); });
  };
  EXPECT_THAT(error(config_of(true, 0)), HasSubstr("run.keep_best goes by"));
  EXPECT_THAT(error(config_of(false, 4)), HasSubstr("train.patience = 4 goes by"));
  EXPECT_EQ(error(config_of(false, 0)), "no error");
}

}  // namespace
}  // namespace trireme
