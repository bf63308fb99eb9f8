// Copies of a small trainer: when they are made, which one is read, and what is saved of them at the end.
#include "trireme/run/memory_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temp_folder.h"
#include "trireme/comm/context.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/rank_states.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelOptions small_mlp() {
  ModelOptions model;
  model.family = "mlp";
  model.layers = 1;
  model.classes = 2;
  return model;
}

class MemoryCopiesTest : public ::testing::Test {
 protected:
  MemoryCopiesTest() : trainer_(small_mlp(), {}, {}, {4, {1, 2, 2}}, *device_, ranks_) {
    trainer_.initialise(1);
  }
  MemoryCopies& begin(int64_t every, CheckpointPeers peers = {}) {
    return copies_.emplace(memory_.path(), every, peers, trainer_, ranks_);
  }
  std::string make(int64_t step) {
    return copies_->make(step, [&] { return TrainState{.step = step}; });
  }
  std::vector<int64_t> steps(const TempFolder& folder) { return Checkpoints(folder.path(), 1).steps(); }
  // Changes a byte of the weights.
  void damage(int64_t step) {
    std::fstream file(memory_.path() / "checkpoints" / checkpoint_name(step) / "model.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x55');
  }

  TempFolder memory_, run_;
  const RankOptions ranks_;
  const std::unique_ptr<Device> device_ = make_cpu_device(1);
  Trainer trainer_;
  std::optional<MemoryCopies> copies_;
};

TEST_F(MemoryCopiesTest, AreMadeAsOftenAsTheSettingSays) {
  MemoryCopies& copies = begin(3);
  std::vector<int64_t> made;
  for (int64_t step = 5; step <= 12; ++step) {
    if (!copies.is_due(step)) continue;
    EXPECT_EQ(make(step), "");
    made.push_back(step);
  }
  EXPECT_THAT(made, ElementsAre(5, 6, 9, 12));  // the first at once
  EXPECT_THAT(steps(memory_), ElementsAre(9, 12));
}

TEST_F(MemoryCopiesTest, ThoseOfStepsThatARewindUndidAreGone) {
  MemoryCopies& copies = begin(1);
  for (const int64_t step : {18, 55, 56}) EXPECT_EQ(make(step), "");
  copies.rewound_to(20);
  EXPECT_FALSE(copies.load_after(20));
  EXPECT_TRUE(copies.is_due(21));
  for (const int64_t step : {21, 22, 23}) EXPECT_EQ(make(step), "");
  EXPECT_EQ(copies.load_after(20)->state.step, 23);
  EXPECT_THAT(steps(memory_), ElementsAre(22, 23));
}

TEST_F(MemoryCopiesTest, TakeASmallShareOfTheTimeWhereNobodySaysHowOften) {
  MemoryCopies& copies = begin(0);
  constexpr int64_t kSteps = 1000;
  int64_t made = 0;
  for (int64_t step = 0; step < kSteps; ++step) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (!copies.is_due(step)) continue;
    EXPECT_EQ(make(step), "");
    ++made;
  }
  EXPECT_GE(made, 1);
  EXPECT_LT(made, kSteps / 4);  // a copy takes longer than such a step, so some tens of steps are in between
}

TEST_F(MemoryCopiesTest, TheNewestWholeOneIsRead) {
  MemoryCopies& copies = begin(1);
  EXPECT_FALSE(copies.load_after(0));
  make(7);
  make(8);
  EXPECT_EQ(copies.load_after(7)->state.step, 8);
  EXPECT_FALSE(copies.load_after(8));
  damage(8);
  EXPECT_EQ(copies.load_after(6)->state.step, 7);
  EXPECT_FALSE(copies.load_after(7));
  damage(7);
  EXPECT_FALSE(copies.load_after(0));
}

TEST_F(MemoryCopiesTest, WhatDoesNotFitIsNotTried) {
  CheckpointPeers many;
  many.here = 1 << 30;
  MemoryCopies& copies = begin(1, many);
  EXPECT_THAT(make(1), HasSubstr("no copies in memory: 3 of them take"));
  EXPECT_FALSE(copies.is_due(2));
  EXPECT_NE(make(2), "");
  EXPECT_THAT(steps(memory_), ElementsAre());
}

TEST_F(MemoryCopiesTest, AFailureIsTriedAgainLater) {
  MemoryCopies& copies = begin(1);
  memory_.write("checkpoints", "");  // a file in the place of the folder
  EXPECT_THAT(make(1), HasSubstr("was not written"));
  EXPECT_TRUE(copies.is_due(2));
  EXPECT_NE(make(2), "");
  EXPECT_FALSE(copies.is_due(3));
  fs::remove(memory_.path() / "checkpoints");
  EXPECT_EQ(make(4), "");
  EXPECT_TRUE(copies.is_due(5));
}

TEST_F(MemoryCopiesTest, TheNewestIsSavedInTheRunsFolder) {
  begin(1);
  EXPECT_EQ(rescue_copy(memory_.path(), run_.path()), "");
  make(7);
  make(8);
  damage(8);
  EXPECT_EQ(rescue_copy(memory_.path(), run_.path()), run_.path() / "checkpoints" / "step-00000007");
  EXPECT_THAT(steps(run_), ElementsAre(7));
  EXPECT_EQ(Checkpoints(run_.path(), 1).load_latest()->state.step, 7);
  EXPECT_EQ(rescue_copy(memory_.path(), run_.path()), "");  // it is there
}

// Both wait for the same step, though each has times of its own; and what two wrote, one can read.
TEST(MemoryCopies, RanksAgreeOnTheNext) {
  const TempFolder memory;
  const Plan plan = parse_plan(R"({"mesh": "data:2"})", "the plan");
  std::vector<std::vector<int64_t>> made(2);
  comm::run_rank_threads(2, [&](comm::Context& context) {
    MeshCommunicator communicator(plan.mesh, context);
    const RankOptions ranks{plan, context.rank(), &communicator};
    const std::unique_ptr<Device> device = make_cpu_device(1);
    Trainer trainer(small_mlp(), {}, {}, {4, {1, 2, 2}}, *device, ranks);
    trainer.initialise(1);
    MemoryCopies copies(memory.path(), 0, checkpoint_peers(ranks), trainer, ranks);
    for (int64_t step = 1; step <= 200; ++step) {
      std::this_thread::sleep_for(std::chrono::microseconds(context.rank() == 0 ? 50 : 500));
      if (!copies.is_due(step)) continue;
      EXPECT_EQ(copies.make(step, [&] { return TrainState{.step = step}; }), "");
      made[static_cast<size_t>(context.rank())].push_back(step);
    }
  });
  EXPECT_FALSE(made[0].empty());
  EXPECT_EQ(made[0], made[1]);
  EXPECT_EQ(Checkpoints(memory.path(), 1).load_latest()->state.step, made[0].back());
}

}  // namespace
}  // namespace trireme
