// From settings to data: what people set reaches the readers. And a whole run of a model and data of one's
// own, as its observer sees it.
#include "trireme/run/loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "trireme/comm/context.h"
#include "trireme/data/image_samples.h"
#include "trireme/data/loader.h"
#include "trireme/data/test_files.h"
#include "trireme/data/test_images.h"
#include "trireme/data/test_vocabulary.h"
#include "trireme/run/saved_run.h"
#include "trireme/runtime/mesh_communicator.h"

namespace trireme {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

class RunData : public ::testing::Test {
 protected:
  OpenedData open() {
    config_.data.path = folder_.path().string();
    return open_run_data(config_, "");
  }
  TempFolder folder_;
  Config config_;
};

TEST_F(RunData, ImagesAreBroughtToTheSizeAndNormalisedAsSet) {
  for (const char* name : {"a/1.png", "b/1.png"})
    folder_.write(name, make_png(6, 9, PNG_FORMAT_RGB, std::vector<uint8_t>(6 * 9 * 3, 51)));
  folder_.write("b/2.png", make_png(4, 4, PNG_FORMAT_RGB, std::vector<uint8_t>(4 * 4 * 3, 51)));
  config_.data.kind = "images";
  config_.data.validation_fraction = 0;
  EXPECT_THAT(error_of([&] { open(); }), HasSubstr("data.image_height"));
  config_.data.image_height = 3;
  config_.data.image_width = 5;
  config_.data.mean = {0.1};
  config_.data.deviation = {0.5};
  const OpenedData data = open();
  EXPECT_EQ(data.input, (Shape{3, 3, 5}));
  Loader loader(data.train, {.batch = 3});
  EXPECT_THAT(loader.next().at("images").values<float>(), Each(::testing::FloatNear(0.2f, 1e-6f)));
  config_.data.mean = {0.1, 0.1};
  config_.data.deviation = {0.5, 0.5};
  EXPECT_THAT(error_of([&] { open(); }), HasSubstr("one per channel"));
}

TEST_F(RunData, DigitsAreNotScaled) {
  folder_.write("train-images-idx3-ubyte", make_idx_images(2, 2, 3, "abcdefghijkl"));
  folder_.write("train-labels-idx1-ubyte", make_idx_labels("\1\2"));
  config_.data.validation_fraction = 0;
  config_.data.image_height = 3;
  config_.data.image_width = 2;
  EXPECT_THAT(error_of([&] { open(); }), HasSubstr("these images are 2x3, but data.image_height = 3"));
  std::swap(config_.data.image_height, config_.data.image_width);
  EXPECT_EQ(open().input, (Shape{1, 2, 3}));
}

TEST_F(RunData, Gpt2ReadsItsFilesFromTheTokenizerPath) {
  TempFolder bpe;
  bpe.write("encoder.json", encoder_json_of(vocabulary_of(small_merges())));
  bpe.write("vocab.bpe", vocab_bpe_of(small_merges()));
  folder_.write("a.txt", "hello hello hello hello hello");
  config_.model.seq = 2;
  config_.data.validation_fraction = 0;
  config_.data.tokenizer = "gpt2";
  EXPECT_THAT(error_of([&] { open(); }), HasSubstr("data.tokenizer_path is empty"));
  config_.data.tokenizer_path = bpe.path().string();
  EXPECT_EQ(open().vocab, 265);
}

// y = 2x − 1, or that times `scale`, at places that follow from the number of the sample.
class Line : public DataSet {
 public:
  explicit Line(float scale = 1) : scale_(scale) {}
  int64_t size() const override { return 40; }
  std::span<const SampleTensor> tensors() const override { return tensors_; }
  void write(int64_t, int64_t index, int64_t row, Batch& batch) const override {
    const float x = static_cast<float>(index) / 20 - 1;
    batch.at("x").row<float>(row)[0] = x;
    batch.at("y").row<float>(row)[0] = scale_ * (2 * x - 1);
  }
  void write_padding(int64_t row, Batch& batch) const override { write(0, 0, row, batch); }

 private:
  float scale_;
  std::vector<SampleTensor> tensors_ = {{"x", DType::f32, {1}}, {"y", DType::f32, {1}}};
};

ModelRecord line_model() {
  ModelRecord model{.family = "line", .inputs = {{"x", DType::f32, {1}}, {"y", DType::f32, {1}}}};
  model.loss = [](Network& net, const ModelOptions&, std::span<const ValueId> inputs) {
    return net.squared_error(
        net.linear(inputs[0], "line", 1, Network::Store::kInOut, Init::zeros(), Bias::kZeros), inputs[1]);
  };
  return model;
}

// Every call in order; "step" and the like, with numbers where they are known.
class Witness : public RunObserver {
 public:
  std::vector<std::string> seen;
  double loss = 0, validation_loss = 0;
  std::map<int64_t, double> held_out;  // losses by step

  void note(const std::string& line) override { seen.push_back("note: " + line.substr(0, line.find(' '))); }
  void warn_here(const std::string&) override { seen.emplace_back("warning"); }
  void started(const RunStart& run) override {
    seen.push_back(
        fmt::format("{} of {} parameters from {}", run.model.record.family, run.parameters, run.steps_done));
  }
  void stepped(const StepMetrics& step) override {
    seen.push_back(fmt::format("step {}", step.step));
    loss = step.loss;
  }
  void validated(const ValidationMetrics& line) override {
    seen.push_back(fmt::format("validated {}", line.targets));
    held_out[line.step] = validation_loss = line.loss;
  }
  void saved(const std::string& path) override {
    seen.push_back("saved " + path.substr(path.rfind('-') + 1));
  }
  void ended(const RunResult& result) override { seen.push_back(fmt::format("ended {}", result.steps)); }
  void sampled(int64_t, const std::string&) override { seen.emplace_back("sampled"); }
};

ResolvedConfig line_config(const std::filesystem::path& folder, const TrainOptions& train) {
  ResolvedConfig config;
  config.config.train = train;
  config.config.optim = {.kind = "sgd", .lr = 0.3, .weight_decay = 0};
  config.config.lr_schedule = {.kind = "constant", .warmup_steps = 0};
  config.config.run = {.dir = folder.string(), .checkpoint_every = 0};
  return config;
}

OpenedData line_data() {
  const auto line = std::make_shared<Line>();
  return {.kind = "own", .train = line, .validation = line, .summary = "a line"};
}

TEST(RunTraining, OfAModelAndDataOfOnesOwnIsToldToTheObserverAndPrintsNothing) {
  TempFolder folder;
  ResolvedConfig config =
      line_config(folder.path(), {.batch = 10, .steps = 3, .threads = 1, .clip_norm = 0, .eval_every = 2});
  const OpenedData data = line_data();
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Witness first, second;
  run_training(config, line_model(), data, {}, first);
  config.config.train.steps = 60;
  config.config.train.eval_every = 0;
  const RunResult result = run_training(config, line_model(), data, {}, second);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");

  EXPECT_THAT(first.seen,
              ::testing::ElementsAre("line of 2 parameters from 0", "step 1", "step 2", "validated 40",
                                     "step 3", "validated 40", "saved 00000003", "ended 3"));
  ASSERT_GE(second.seen.size(), 4u);
  EXPECT_THAT(second.seen.front(), HasSubstr("note: "));  // what it goes on from
  EXPECT_THAT(second.seen, ::testing::Contains("line of 2 parameters from 3"));
  EXPECT_EQ(second.seen.back(), "ended 60");
  EXPECT_EQ(result.steps, 60);
  EXPECT_LT(second.loss, 1e-3);
}

TEST(RunTraining, ValidationSeesTheSameSamplesHoweverABatchIsCut) {
  double whole = 0;
  for (const int64_t accumulate : {1, 2, 5}) {
    TempFolder folder;
    Witness witness;
    run_training(line_config(folder.path(), {.batch = 10,
                                             .accumulate = accumulate,
                                             .steps = 1,
                                             .threads = 1,
                                             .clip_norm = 0,
                                             .eval_batches = 2}),
                 line_model(), line_data(), {}, witness);
    EXPECT_THAT(witness.seen, ::testing::Contains("validated 20")) << accumulate;
    if (accumulate == 1) whole = witness.validation_loss;
    EXPECT_GT(whole, 0);
    EXPECT_NEAR(witness.validation_loss, whole, 1e-6 * whole) << accumulate;
  }
}

TEST(RunTraining, GoesOnFromWeightsOfAModelOfOnesOwn) {
  TempFolder folder;
  ResolvedConfig config = line_config(
      folder.path() / "first", {.batch = 10, .steps = 60, .threads = 1, .clip_norm = 0, .eval_every = 0});
  const OpenedData data = line_data();
  ModelRecord model = line_model();
  model.weight_settings = {"model.layers"};
  Witness first, second;
  run_training(config, model, data, {}, first);

  const SavedRun saved = open_saved_run(config.config.run.dir, {}, {}, &model);
  EXPECT_EQ(saved.model.record.family, "line");
  EXPECT_EQ(saved.config.model.family, "line");
  EXPECT_THAT(error_of([&] { open_saved_run(config.config.run.dir); }), HasSubstr("model.family"));

  config.config.train.init_from = config.config.run.dir;
  config.config.train.steps = 1;
  config.config.run.dir = (folder.path() / "second").string();
  run_training(config, model, data, {}, second);
  EXPECT_LT(second.loss, 1e-3);
  config.config.model.layers = 7;
  config.config.run.dir = (folder.path() / "third").string();
  EXPECT_THAT(error_of([&] { run_training(config, model, data, {}, second); }),
              HasSubstr("model.layers = 7"));
}

// The metrics of each step.
class Steps : public Witness {
 public:
  std::vector<StepMetrics> lines;
  std::function<void(int64_t step)> after = [](int64_t) {};

  void stepped(const StepMetrics& step) override {
    lines.push_back(step);
    after(step.step);
  }
};

// 40 samples in an epoch.
TEST(RunTraining, CountsTheSamplesOfAllEpochs) {
  TempFolder folder;
  const ResolvedConfig config =
      line_config(folder.path(), {.batch = 10, .steps = 11, .threads = 1, .clip_norm = 0, .eval_every = 0});
  Steps steps;
  run_training(config, line_model(), line_data(), {}, steps);
  ASSERT_EQ(steps.lines.size(), 11u);
  for (const StepMetrics& line : steps.lines) EXPECT_EQ(line.samples, 10 * line.step);
}

// A checkpoint that can not be written is tried again after 1, 2, 4, … steps.
TEST(RunTraining, WaitsTwiceAsLongBeforeEachAttemptToSave) {
  TempFolder folder;
  ResolvedConfig config =
      line_config(folder.path(), {.batch = 10, .steps = 140, .threads = 1, .clip_norm = 0, .eval_every = 0});
  config.config.run.checkpoint_every = 100;
  const std::filesystem::path checkpoints = folder.path() / "checkpoints";
  Steps steps;
  std::vector<int64_t> warned;
  steps.after = [&](int64_t step) {
    // What was told behind the step before.
    for (const std::string& line : std::exchange(steps.seen, {})) {
      if (line == "note: warning:") warned.push_back(step - 1);
    }
    if (step == 99) {  // a file in the place of the folder
      std::filesystem::remove_all(checkpoints);
      folder.write("checkpoints", "");
    }
    if (step == 120) std::filesystem::remove(checkpoints);
  };
  run_training(config, line_model(), line_data(), {}, steps);
  EXPECT_THAT(warned, ::testing::ElementsAre(100, 101, 103, 107, 115));
  EXPECT_TRUE(std::filesystem::exists(checkpoints / "step-00000131"));
  EXPECT_TRUE(std::filesystem::exists(checkpoints / "step-00000140"));
}

// An epoch of 40 samples is 4 steps of 12, the last of them with samples of the next epoch: ranks agree in
// every fourth step, and say nothing in between.
TEST(RunTraining, OfEpochsAgreesWhenEachSampleWasSeen) {
  TempFolder folder;
  const ResolvedConfig config = line_config(
      folder.path(),
      {.batch = 12, .steps = 9, .threads = 1, .clip_norm = 0, .eval_every = 0, .compare_every = 0});
  const Plan plan =
      parse_plan(R"({"mesh": "data:2", "exchange": {"method": "fedavg", "epochs": 1}})", "the plan");
  Steps steps, others;
  comm::run_rank_threads(2, [&](comm::Context& context) {
    MeshCommunicator communicator(plan.mesh, context);
    comm::Group world = context.world();
    run_training(config, line_model(), line_data(),
                 {.ranks = {plan, context.rank(), &communicator}, .world = &world},
                 context.rank() == 0 ? steps : others);
  });
  std::vector<int64_t> agreed;
  for (const StepMetrics& line : steps.lines) {
    if (line.bytes_sent > 0) agreed.push_back(line.step);
  }
  EXPECT_THAT(agreed, ::testing::ElementsAre(4, 8));
}

// The held-out samples are of a line between the start and the one that is learned: their loss falls and then
// rises.
OpenedData data_with_a_best_step() {
  return {.kind = "own",
          .train = std::make_shared<Line>(),
          .validation = std::make_shared<Line>(0.5f),
          .summary = "two lines"};
}

// Steps see all samples, so that the loss has one minimum.
ResolvedConfig evaluating_config(const std::filesystem::path& folder, int64_t steps) {
  ResolvedConfig config = line_config(
      folder,
      {.batch = 40, .steps = steps, .threads = 1, .clip_norm = 0, .eval_every = 1, .eval_batches = 4});
  config.config.optim.lr = 0.05;
  config.config.run.keep = 1;
  return config;
}

int64_t lowest_of(const std::map<int64_t, double>& losses) {
  return std::ranges::min_element(losses, {}, [](const auto& one) { return one.second; })->first;
}

TEST(RunTraining, KeepsTheBestCheckpoint) {
  TempFolder folder;
  ResolvedConfig config = evaluating_config(folder.path() / "run", 40);
  config.config.run.keep_best = true;
  config.config.run.checkpoint_every = 7;
  Witness witness;
  run_training(config, line_model(), data_with_a_best_step(), {}, witness);
  const int64_t best = lowest_of(witness.held_out);
  ASSERT_GT(best, 3);
  ASSERT_LT(best, 25);
  ASSERT_NE(best % config.config.run.checkpoint_every, 0);  // saved for its own sake
  const ModelRecord model = line_model();
  const auto open = [&](const CheckpointChoice& choice) {
    return open_saved_run(config.config.run.dir, choice, {}, &model).checkpoint.state.step;
  };
  EXPECT_EQ(open(CheckpointChoice::best()), best);
  EXPECT_EQ(open(CheckpointChoice::newest()), 40);
  EXPECT_THAT(Checkpoints(config.config.run.dir, 1).steps(), ::testing::ElementsAre(best, 35, 40));

  config.config.train.steps = 45;  // and a run that goes on knows it
  run_training(config, line_model(), data_with_a_best_step(), {}, witness);
  EXPECT_EQ(open(CheckpointChoice::best()), best);
  EXPECT_THAT(Checkpoints(config.config.run.dir, 1).steps(), ::testing::Contains(best));

  std::filesystem::remove_all(folder.path() / "run/checkpoints" / checkpoint_name(best));
  EXPECT_THAT(error_of([&] { open(CheckpointChoice::best()); }), HasSubstr("which was the best"));
  config.config.run.keep_best = false;
  config.config.run.dir = (folder.path() / "other").string();
  run_training(config, line_model(), data_with_a_best_step(), {}, witness);
  EXPECT_THAT(error_of([&] { open(CheckpointChoice::best()); }), HasSubstr("holds no best checkpoint"));
}

TEST(RunTraining, EndsEarlyWhenPatienceIsOverAndKeepsItWhenResumed) {
  TempFolder folder;
  ResolvedConfig config = evaluating_config(folder.path() / "whole", 40);
  Witness whole, first, second, third, fourth;
  run_training(config, line_model(), data_with_a_best_step(), {}, whole);
  const int64_t best = lowest_of(whole.held_out);

  config = evaluating_config(folder.path() / "run", best + 2);  // in the middle of its patience
  config.config.train.patience = 3;
  EXPECT_EQ(run_training(config, line_model(), data_with_a_best_step(), {}, first).end,
            RunResult::End::kFinished);
  config.config.train.steps = 40;
  RunResult result = run_training(config, line_model(), data_with_a_best_step(), {}, second);
  EXPECT_EQ(result.end, RunResult::End::kNoBetter);
  EXPECT_EQ(result.steps, best + 3);
  EXPECT_EQ(second.held_out[best + 3], whole.held_out[best + 3]);
  EXPECT_THAT(second.seen, ::testing::Contains(fmt::format("saved {:08}", best + 3)));

  result = run_training(config, line_model(), data_with_a_best_step(), {}, third);  // over is over
  EXPECT_EQ(result.end, RunResult::End::kNoBetter);
  EXPECT_EQ(result.steps, best + 3);
  EXPECT_TRUE(third.held_out.empty());
  config.config.train.patience = 5;
  result = run_training(config, line_model(), data_with_a_best_step(), {}, fourth);
  EXPECT_EQ(result.end, RunResult::End::kNoBetter);
  EXPECT_EQ(result.steps, best + 5);
}

TEST(RunTraining, SavesAndEndsWhenTheTimeIsUp) {
  TempFolder folder;
  ResolvedConfig config = evaluating_config(folder.path() / "whole", 6);
  Witness whole, limited, rest;
  run_training(config, line_model(), line_data(), {}, whole);
  config.config.run.dir = (folder.path() / "limited").string();
  config.config.train.max_minutes = 1e-9;  // over before the first step is
  RunResult result = run_training(config, line_model(), line_data(), {}, limited);
  EXPECT_EQ(result.end, RunResult::End::kTimeIsUp);
  EXPECT_EQ(result.steps, 1);
  EXPECT_THAT(limited.seen, ::testing::Contains("saved 00000001"));
  config.config.train.max_minutes = 1000;
  result = run_training(config, line_model(), line_data(), {}, rest);
  EXPECT_EQ(result.end, RunResult::End::kFinished);
  EXPECT_EQ(result.steps, 6);
  EXPECT_EQ(rest.loss, whole.loss);
}

TEST(RunTraining, WithoutHeldOutDataThereIsNoBest) {
  TempFolder folder;
  OpenedData data = line_data();
  data.validation = nullptr;
  ResolvedConfig config = evaluating_config(folder.path() / "run", 6);
  config.config.train.patience = 2;
  Witness witness;
  EXPECT_THAT(error_of([&] { run_training(config, line_model(), data, {}, witness); }),
              HasSubstr("train.patience = 2 goes by the loss on held-out data"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "run"));
}

}  // namespace
}  // namespace trireme
