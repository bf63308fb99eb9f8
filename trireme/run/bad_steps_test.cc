// Steps with bad numbers: the limit of losses and the record in checkpoints; and whole runs on data of which
// one sample has a target that is not a number, or is absurd.
#include "trireme/run/bad_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "tests/support/error_of.h"
#include "trireme/checkpoint/checkpoint.h"
#include "trireme/comm/context.h"
#include "trireme/data/test_files.h"
#include "trireme/run/loop.h"
#include "trireme/runtime/mesh_communicator.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

StepResult good(double loss) {
  return {.loss = loss};
}

TEST(BadSteps, ASpikeIsAboveMeanAndDeviationsOfTheWindow) {
  BadSteps steps({.on_spike = "skip", .spike_deviations = 2, .spike_window = 4});
  for (const double loss : {9.0, 1.0, 3.0, 1.0}) {
    EXPECT_EQ(steps.loss_limit(), Trainer::kNoLossLimit);
    steps.add(good(loss));
  }
  StepResult bad = good(100);
  bad.skipped = true;
  steps.add(bad);        // does not change what is usual
  steps.add(good(3.0));  // 1 3 1 3: mean 2, deviation 1
  EXPECT_EQ(steps.loss_limit(), 4);
}

TEST(BadSteps, RewindsToTheLastScheduledCheckpointAtMostSoOften) {
  using enum BadNumbers::Kind;
  BadSteps steps({.on_nan = "rewind", .max_rewinds = 2});
  EXPECT_FALSE(steps.rewinds_after(kSpike));
  EXPECT_TRUE(steps.rewinds_after(kNotFinite));
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(steps.may_rewind());
    EXPECT_EQ(steps.rewind_to(), 0);
    steps.rewound("{}", "");
  }
  EXPECT_FALSE(steps.may_rewind());
  steps.saves(10);
  EXPECT_TRUE(steps.may_rewind());
  steps.saves(20);
  steps.not_saved(20);
  EXPECT_EQ(steps.rewind_to(), 10);
  EXPECT_EQ(steps.rewinds_so_far(), 2);
}

TEST(BadSteps, CheckpointsKeepTheRecord) {
  const TrainOptions train{.on_spike = "rewind", .spike_window = 2};
  BadSteps steps(train), resumed(train);
  steps.saves(10);
  for (const double loss : {0.1, 0.7}) steps.add(good(loss));
  steps.rewound(steps.added_to("{}"), "");
  resumed.restore(steps.added_to(R"({"other": 1})"), 15, "state.json");
  EXPECT_EQ(resumed.loss_limit(), steps.loss_limit());
  EXPECT_LT(resumed.loss_limit(), Trainer::kNoLossLimit);
  EXPECT_EQ(resumed.rewind_to(), 10);
  EXPECT_EQ(resumed.rewinds_so_far(), 1);
  EXPECT_THAT(resumed.added_to(R"({"other": 1})"), HasSubstr("other"));

  resumed.restore("{}", 15, "state.json");  // written without these settings
  EXPECT_EQ(resumed.rewind_to(), 15);
  for (const char* damaged : {R"({"bad_steps": {"rewind_to": 16}})", R"({"bad_steps": {"rewind_to": -1}})",
                              R"({"bad_steps": {"losses": [1, "2"]}})", R"({"bad_steps": 3})"})
    EXPECT_THAT(error_of([&] { resumed.restore(damaged, 15, "state.json"); }), HasSubstr("state.json"));
}

TEST(BadSteps, WithDefaultSettingsLeaveNoTraceInCheckpoints) {
  BadSteps steps{TrainOptions()};
  steps.add(good(1));
  steps.saves(10);
  EXPECT_EQ(steps.added_to("{}"), "{}");
}

// y = 2x − 1, but for one sample.
class LineWithABadSample : public DataSet {
 public:
  explicit LineWithABadSample(float bad) : bad_(bad) {}
  int64_t size() const override { return 40; }
  std::span<const SampleTensor> tensors() const override { return tensors_; }
  void write(int64_t, int64_t index, int64_t row, Batch& batch) const override {
    const float x = static_cast<float>(index) / 20 - 1;
    batch.at("x").row<float>(row)[0] = x;
    batch.at("y").row<float>(row)[0] = index == 13 ? bad_ : 2 * x - 1;
  }
  void write_padding(int64_t row, Batch& batch) const override { write(0, 0, row, batch); }

 private:
  float bad_;
  std::vector<SampleTensor> tensors_ = {{"x", DType::f32, {1}}, {"y", DType::f32, {1}}};
};

ModelRecord troubled_model() {
  ModelRecord model{.family = "line", .inputs = {{"x", DType::f32, {1}}, {"y", DType::f32, {1}}}};
  model.loss = [](Network& net, const ModelOptions&, std::span<const ValueId> inputs) {
    return net.squared_error(
        net.linear(inputs[0], "line", 1, Network::Store::kInOut, Init::normal(1), Bias::kZeros), inputs[1]);
  };
  return model;
}

constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN(), kAbsurd = 1e6f;
constexpr int64_t kSteps = 34;  // more than three epochs of ten

ResolvedConfig troubled_config(const std::filesystem::path& folder, const std::string& policy) {
  ResolvedConfig config;
  config.config.train = {.batch = 4, .steps = kSteps, .threads = 1, .clip_norm = 0, .eval_every = 0};
  config.config.train.on_nan = config.config.train.on_spike = policy;
  config.config.train.spike_window = 3;
  config.config.train.spike_deviations = 1000;
  config.config.optim = {.kind = "adamw", .lr = 0.1, .weight_decay = 0};
  config.config.lr_schedule = {.kind = "constant", .warmup_steps = 0};
  config.config.run = {.dir = folder.string(), .checkpoint_every = 4};
  return config;
}

class TroubleWitness : public RunObserver {
 public:
  std::atomic<bool> stop = false;
  int64_t stop_after = 0;
  std::vector<int64_t> skips, rewinds;  // steps; those that were gone back to
  StepMetrics last;

  void stepped(const StepMetrics& step) override {
    last = step;
    if (step.step == stop_after) stop = true;
  }
  void skipped(int64_t step, const std::string&) override { skips.push_back(step); }
  void rewound(int64_t step, const std::string&) override { rewinds.push_back(step); }
};

void run_troubled(const ResolvedConfig& config, float bad, int ranks, TroubleWitness& witness) {
  const auto line = std::make_shared<LineWithABadSample>(bad);
  const OpenedData data{.kind = "own", .train = line, .summary = "a line"};
  if (ranks == 1) {
    run_training(config, troubled_model(), data, {.stop = &witness.stop}, witness);
    return;
  }
  const Plan plan = parse_plan(R"({"mesh": "data:2"})", "the plan");
  comm::run_rank_threads(ranks, [&](comm::Context& context) {
    MeshCommunicator communicator(plan.mesh, context);
    comm::Group world = context.world();
    RunObserver others;
    RunContext run{.ranks = {plan, context.rank(), &communicator}, .world = &world};
    if (context.rank() == 0) run.stop = &witness.stop;
    run_training(config, troubled_model(), data, run, context.rank() == 0 ? witness : others);
  });
}

// All tensors of the last checkpoint.
std::string last_tensors(const std::filesystem::path& folder) {
  std::ostringstream all;
  std::set<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder / "checkpoints" / checkpoint_name(kSteps)))
    if (entry.path().extension() == ".safetensors") files.insert(entry.path());
  for (const auto& file : files) all << std::ifstream(file, std::ios::binary).rdbuf();
  return all.str();
}

struct Trouble {
  std::string policy;
  float bad;
  int ranks;
};
class RunInTrouble : public ::testing::TestWithParam<Trouble> {};

INSTANTIATE_TEST_SUITE_P(Policies, RunInTrouble,
                         ::testing::Values(Trouble{"skip", kNotANumber, 1}, Trouble{"skip", kNotANumber, 2},
                                           Trouble{"skip", kAbsurd, 1}, Trouble{"skip", kAbsurd, 2},
                                           Trouble{"rewind", kNotANumber, 1},
                                           Trouble{"rewind", kNotANumber, 2}, Trouble{"rewind", kAbsurd, 1},
                                           Trouble{"rewind", kAbsurd, 2}),
                         [](const auto& test) {
                           return fmt::format("{}_{}_{}", test.param.policy,
                                              std::isnan(test.param.bad) ? "nan" : "spike", test.param.ranks);
                         });

TEST_P(RunInTrouble, LearnsTheLineAndAStopChangesNothing) {
  const auto& [policy, bad, ranks] = GetParam();
  TempFolder folder;
  TroubleWitness whole;
  run_troubled(troubled_config(folder.path() / "whole", policy), bad, ranks, whole);
  EXPECT_EQ(whole.last.step, kSteps);
  EXPECT_LT(whole.last.loss, 1);
  if (policy == "skip") {
    EXPECT_EQ(whole.skips.size(), 3u);  // once an epoch
    EXPECT_EQ(whole.last.samples, 4 * kSteps);
  } else {
    EXPECT_THAT(whole.skips, ::testing::IsEmpty());
    EXPECT_GE(whole.rewinds.size(), 3u);
    for (const int64_t step : whole.rewinds) EXPECT_EQ(step % 4, 0);
    EXPECT_EQ(whole.last.rewinds, std::ssize(whole.rewinds));
    EXPECT_GT(whole.last.samples, 4 * kSteps);  // with those that were left out
  }

  const ResolvedConfig config = troubled_config(folder.path() / "stopped", policy);
  TroubleWitness last;
  for (const int64_t step : {3, 6, 7, 8, 13, 21, 22, 30}) {
    TroubleWitness part;
    part.stop_after = step;
    run_troubled(config, bad, ranks, part);
    EXPECT_EQ(part.last.step, step);
  }
  run_troubled(config, bad, ranks, last);
  EXPECT_EQ(last.last.rewinds, whole.last.rewinds);
  EXPECT_EQ(last.last.samples, whole.last.samples);
  EXPECT_TRUE(last_tensors(folder.path() / "stopped") == last_tensors(folder.path() / "whole"));
}

TEST(BadSteps, StopAsToldAndHaveAnEndOfSkippingAndRewinding) {
  const auto error_with = [](const std::string& policy, float bad, const auto& change) {
    TempFolder folder;
    ResolvedConfig config = troubled_config(folder.path(), policy);
    change(config.config.train);
    TroubleWitness witness;
    return error_of([&] { run_troubled(config, bad, 1, witness); });
  };
  EXPECT_THAT(error_with("stop", kNotANumber, [](TrainOptions&) {}), HasSubstr("the loss is nan at step"));
  EXPECT_THAT(error_with("stop", kAbsurd, [](TrainOptions&) {}), HasSubstr("a spike"));
  // Every batch has all samples.
  EXPECT_THAT(error_with("skip", kNotANumber, [](TrainOptions& train) { train.batch = 40; }),
              HasSubstr("at step 11;"));
  EXPECT_THAT(error_with("rewind", kNotANumber, [](TrainOptions& train) { train.batch = 40; }),
              HasSubstr("rewound to step 0 train.max_rewinds = 3 times"));
  EXPECT_EQ(error_with("none", kAbsurd, [](TrainOptions& train) { train.on_nan = "stop"; }), "no error");
}

}  // namespace
}  // namespace trireme
