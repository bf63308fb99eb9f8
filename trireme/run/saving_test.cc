// Checkpoints of a small trainer: when they are written, and what becomes of those that can not be.
#include "trireme/run/saving.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/temp_folder.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;

const StepShape kShape{4, {1, 2, 2}};

class SavingTest : public ::testing::Test {
 protected:
  SavingTest() {
    ModelOptions model;
    model.family = "mlp";
    model.layers = 1;
    model.classes = 2;
    trainer_.emplace(model, TrainOptions{}, OptimOptions{}, kShape, *device_, ranks_);
    trainer_->initialise(1);
    config_.train.steps = 100;
    config_.train.eval_every = 10;
    config_.run.checkpoint_every = 20;
    config_.run.keep_best = true;
  }
  // Once the settings are as a test wants them.
  Saving& begin(Saving::Mode mode) {
    held_out_.emplace(config_, HeldOutRecord::HeldOut::kSome);
    checkpoints_.emplace(folder_.path(), config_.run.keep);
    return saving_.emplace(config_, mode, *checkpoints_, *trainer_, ranks_, *held_out_, bad_steps_,
                           Saving::Events{[](int64_t) { return TrainState(); },
                                          [this](const std::string& path) {
                                            saved_.push_back(std::filesystem::path(path).filename());
                                          },
                                          [this](const NotSaved&, int64_t next) { next_.push_back(next); },
                                          [this](const std::string& line) { intervals_.push_back(line); }});
  }
  // As the run does after each step. Returns the step in which the checkpoint in the background was settled.
  int64_t poll_until_settled(int64_t step) {
    while (checkpoints_->is_under_way()) {
      saving_->poll(++step);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return step;
  }
  // A file in the place of the folder.
  void break_folder() {
    std::filesystem::remove_all(folder_.path() / "checkpoints");
    folder_.write("checkpoints", "");
  }
  void mend_folder() { std::filesystem::remove(folder_.path() / "checkpoints"); }

  TempFolder folder_;
  Config config_;
  const RankOptions ranks_;
  const std::unique_ptr<Device> device_ = make_cpu_device(1);
  std::optional<Trainer> trainer_;
  std::optional<HeldOutRecord> held_out_;
  BadSteps bad_steps_{TrainOptions()};
  std::optional<Checkpoints> checkpoints_;
  std::vector<std::string> saved_;
  std::vector<int64_t> next_;  // steps after which a checkpoint that failed is tried again
  std::vector<std::string> intervals_;
  std::optional<Saving> saving_;
};

TEST_F(SavingTest, IsDueAsOftenAsTheSettingsSay) {
  Saving& saving = begin(Saving::Mode::kTrainingWaits);
  EXPECT_FALSE(saving.is_due(19));
  EXPECT_TRUE(saving.is_due(20));
  EXPECT_TRUE(saving.is_due(40));
  config_.run.checkpoint_every = 0;  // only at the end
  EXPECT_FALSE(saving.is_due(20));
}

TEST_F(SavingTest, FindsAnIntervalWhereNobodySaidOne) {
  config_.run.checkpoint_every = RunOptions::kAutomaticInterval;
  config_.run.hours_between_failures = 1e6;  // so many steps between that this run has none of them
  Saving& saving = begin(Saving::Mode::kTrainingWaits);
  int64_t step = 1;
  for (saving.poll(step); !saving.is_due(step); saving.poll(++step)) ASSERT_LT(step, 50);
  EXPECT_EQ(step, 1 + CheckpointInterval::kFirst);
  saving.try_to_save(step);
  ASSERT_EQ(intervals_.size(), 1u);
  EXPECT_THAT(intervals_[0], ::testing::HasSubstr("a failure every 1e+06 h"));
  EXPECT_FALSE(saving.is_due(step + 10));
  EXPECT_TRUE(saving.is_due(1000000000 + step));
}

TEST_F(SavingTest, WritesTheStepAndTheBestSoFar) {
  Saving& saving = begin(Saving::Mode::kTrainingWaits);
  held_out_->add(7, 1.5);
  saving.try_to_save(7);
  EXPECT_THAT(saved_, ElementsAre("step-00000007"));
  const LoadedCheckpoint read = open_checkpoint(saving.newest());
  EXPECT_EQ(read.state.step, 7);
  EXPECT_EQ(best_checkpoint(read.state.extra, "the checkpoint")->step, 7);
}

TEST_F(SavingTest, TheBestStaysBesideTheNewest) {
  Saving& saving = begin(Saving::Mode::kTrainingWaits);
  held_out_->add(1, 1.5);
  for (int64_t step = 1; step <= 6; ++step) saving.try_to_save(step);
  EXPECT_THAT(checkpoints_->steps(), ElementsAre(1, 5, 6));
}

TEST_F(SavingTest, WaitsTwiceAsLongAfterEachFailure) {
  Saving& saving = begin(Saving::Mode::kTrainingWaits);
  config_.run.checkpoint_every = 0;
  break_folder();
  std::vector<int64_t> tried;
  saving.try_to_save(90);
  for (int64_t step = 91; step < 100; ++step) {
    if (!saving.is_due(step)) continue;
    tried.push_back(step);
    if (step == 97) mend_folder();
    saving.try_to_save(step);
  }
  EXPECT_THAT(tried, ElementsAre(91, 93, 97));
  EXPECT_THAT(next_, ElementsAre(91, 93, 97));
  EXPECT_THAT(saved_, ElementsAre("step-00000097"));
}

TEST_F(SavingTest, TheNextAttemptIsNoLaterThanWhatIsDueAndTheLast) {
  Saving& saving = begin(Saving::Mode::kTrainingWaits);
  break_folder();
  for (const int64_t step : {35, 36, 38, 99}) saving.try_to_save(step);  // then after 1, 2, 4 and 8 steps
  EXPECT_THAT(next_, ElementsAre(36, 38, 40, 100));
}

TEST_F(SavingTest, ASuccessEndsTheWaiting) {
  Saving& saving = begin(Saving::Mode::kTrainingWaits);
  break_folder();
  saving.try_to_save(1);
  saving.try_to_save(2);
  mend_folder();
  saving.try_to_save(4);
  EXPECT_FALSE(saving.is_due(4));
  break_folder();
  saving.try_to_save(5);
  EXPECT_THAT(next_, ElementsAre(2, 4, 6));
}

TEST_F(SavingTest, ABestThatWasNotSavedIsNotTheBest) {
  Saving& saving = begin(Saving::Mode::kTrainingWaits);
  held_out_->add(10, 1.5);
  saving.try_to_save(10);
  held_out_->add(20, 1.0);
  break_folder();
  saving.try_to_save(20);
  ASSERT_TRUE(held_out_->best());
  EXPECT_EQ(held_out_->best()->step, 10);
}

TEST_F(SavingTest, TheLastOneThrows) {
  Saving& saving = begin(Saving::Mode::kTrainingWaits);
  break_folder();
  EXPECT_THROW(saving.save(100), NotSaved);
}

TEST_F(SavingTest, InTheBackgroundIsThereAfterLaterSteps) {
  Saving& saving = begin(Saving::Mode::kInBackground);
  saving.try_to_save(21);
  EXPECT_EQ(saving.newest(), "");
  EXPECT_GE(poll_until_settled(21), 23);  // it is written in one phase and takes its place in another
  EXPECT_THAT(saved_, ElementsAre("step-00000021"));
}

TEST_F(SavingTest, InTheBackgroundTheNextOneWaitsForTheOneBefore) {
  Saving& saving = begin(Saving::Mode::kInBackground);
  saving.try_to_save(1);
  saving.try_to_save(2);
  EXPECT_THAT(saved_, ElementsAre("step-00000001"));
  saving.save(3);
  EXPECT_THAT(saved_, ElementsAre("step-00000001", "step-00000002", "step-00000003"));
}

TEST_F(SavingTest, AnEvaluationWaitsForItWhereTheRunKeepsTheBest) {
  Saving& saving = begin(Saving::Mode::kInBackground);
  saving.try_to_save(9);
  saving.poll(10);
  EXPECT_THAT(saved_, ElementsAre("step-00000009"));
  config_.run.keep_best = false;
  saving.try_to_save(19);
  saving.poll(20);
  EXPECT_THAT(saved_, ElementsAre("step-00000009"));
}

TEST_F(SavingTest, AFailureInTheBackgroundIsOfTheStepThatWasSaved) {
  Saving& saving = begin(Saving::Mode::kInBackground);
  held_out_->add(10, 1.5);
  saving.try_to_save(10);
  poll_until_settled(10);
  held_out_->add(21, 1.0);
  saving.try_to_save(21);
  break_folder();
  const int64_t settled = poll_until_settled(21);
  EXPECT_THAT(saved_, ElementsAre("step-00000010"));
  EXPECT_THAT(next_, ElementsAre(settled + 1));
  EXPECT_EQ(held_out_->best()->step, 10);
}

}  // namespace
}  // namespace trireme
