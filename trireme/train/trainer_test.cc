// Starting values, evaluation, and the errors when numbers stop being finite. Steps themselves
// are compared with PyTorch's in tests/parity.
#include "trireme/train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "trireme/base/error.h"
#include "trireme/optim/update.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kRows = 6;

class TrainerTest : public testing::Test {
 protected:
  void make(const char* family, const Shape& sample, const TrainOptions& train = {}) {
    ModelOptions model;
    model.family = family;
    model.layers = family == std::string("resnet") ? 8 : 2;
    model.heads = 2;
    model.hidden = 16;
    model.vocab = 20;
    model.seq = 8;
    model.classes = 10;
    trainer_ = std::make_unique<Trainer>(model, train, OptimOptions(),
                                         StepShape{kRows / train.accumulate, sample}, *device_);
    trainer_->initialise(1);
  }
  // Labels (or the only token) 0, 1, 2, 3, 4, 5.
  static Batch tokens() {
    Batch batch;
    HostTensor ids, targets;
    for (HostTensor* tensor : {&ids, &targets}) {
      tensor->reset(DType::i32, {kRows, 8});
      for (int64_t row = 0; row < kRows; ++row)
        std::ranges::fill(tensor->row<int32_t>(row), static_cast<int32_t>(row));
    }
    batch.tensors = {{"ids", ids}, {"targets", targets}};
    return batch;
  }
  static Batch images(const Shape& sample) {
    Batch batch;
    HostTensor pixels, labels;
    pixels.reset(DType::f32, {kRows, sample[0], sample[1], sample[2]});
    labels.reset(DType::i32, {kRows});
    for (size_t i = 0; i < pixels.values<float>().size(); ++i)
      pixels.values<float>()[i] = std::sin(static_cast<float>(i));
    for (int32_t row = 0; row < kRows; ++row) labels.values<int32_t>()[row] = row;
    batch.tensors = {{"images", pixels}, {"labels", labels}};
    return batch;
  }
  std::vector<float> get(const std::string& name) {
    std::vector<float> values(trainer_->executor().state_type(name).shape.elements());
    trainer_->executor().read_state(name, values.data(), values.size() * sizeof(float));
    return values;
  }
  void set(const std::string& name, const std::vector<float>& values) {
    trainer_->executor().write_state(name, values.data(), values.size() * sizeof(float));
  }
  // All that a checkpoint would hold.
  std::map<std::string, std::vector<float>> everything() {
    std::map<std::string, std::vector<float>> values;
    for (const auto& tensors : {trainer_->model_tensors(), trainer_->optimizer_tensors()}) {
      for (const NamedTensor& tensor : tensors) values[tensor.name] = get(tensor.name);
    }
    return values;
  }
  // An mlp whose loss is finite on images of `pixel`, while the gradient of its first weight is about 900
  // times the pixel in each row.
  Batch make_with_steep_loss(const TrainOptions& train, float pixel) {
    make("mlp", {1, 3, 3}, train);
    set("layers.0.weight", std::vector<float>(get("layers.0.weight").size(), 0.0f));
    set("layers.0.bias", std::vector<float>(get("layers.0.bias").size(), 1.0f));
    std::vector<float> last = get("layers.1.weight");  // [classes, hidden]
    for (size_t i = 0; i < last.size(); ++i) last[i] = static_cast<float>(i / 16) * 100;
    set("layers.1.weight", last);
    Batch batch = images({1, 3, 3});
    std::ranges::fill(batch.at("images").values<float>(), pixel);
    return batch;
  }
  std::string complaint(Batch& batch, int64_t step, double rate) {
    try {
      trainer_->step(batch, step, rate);
    } catch (const Error& error) {
      return error.what();
    }
    return "no complaint";
  }

  std::unique_ptr<Device> device_ = make_cpu_device(1);
  std::unique_ptr<Trainer> trainer_;
};

TEST_F(TrainerTest, StartsAreAFunctionOfSeedAndName) {
  make("gpt", {8});
  const std::vector<float> first = get("wte.weight"), other = get("h.0.mlp.c_fc.weight");
  make("gpt", {8});
  EXPECT_EQ(get("wte.weight"), first);
  trainer_->initialise(2);
  EXPECT_NE(get("wte.weight"), first);
  EXPECT_NE(other[0], first[0]);
  EXPECT_THAT(get("ln_f.weight"), testing::Each(1.0f));
  EXPECT_THAT(get("m.wte.weight"), testing::Each(0.0f));
  double squares = 0;
  for (float value : other) squares += static_cast<double>(value) * value;
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(other.size())), 0.02, 0.002);
}

TEST_F(TrainerTest, ModelTensorsHaveBuffersAndNoGradients) {
  make("resnet", {3, 8, 8});
  std::vector<std::string> names, moments;
  for (const NamedTensor& tensor : trainer_->model_tensors()) names.push_back(tensor.name);
  for (const NamedTensor& tensor : trainer_->optimizer_tensors()) moments.push_back(tensor.name);
  EXPECT_THAT(names, testing::Contains("bn1.running_var"));
  EXPECT_THAT(names, testing::Not(testing::Contains(testing::StartsWith("grad."))));
  EXPECT_THAT(moments, testing::Contains("m.bn1.weight"));
  EXPECT_THAT(moments, testing::Not(testing::Contains(HasSubstr("running"))));
}

// With no weights the bias decides: all rows get class 3, which one of six rows has.
TEST_F(TrainerTest, EvaluationAddsUpBatchesAndLeavesOutIgnoredRows) {
  const Shape sample{1, 3, 3};
  make("mlp", sample);
  for (const NamedTensor& tensor : trainer_->model_tensors())
    set(tensor.name, std::vector<float>(tensor.view.elements(), 0.0f));
  std::vector<float> bias(10, 0.0f);
  bias[3] = std::log(11.0f);  // class 3: 11 / 20, the others 1 / 20
  set("layers.1.bias", bias);
  Batch batch = images(sample);
  Evaluation total;
  trainer_->evaluate(batch, total);
  EXPECT_EQ(total.count, 6);
  EXPECT_EQ(total.correct, 1);
  EXPECT_NEAR(total.loss, (5 * std::log(20.0) + std::log(20.0 / 11)) / 6, 1e-6);
  batch.at("labels").values<int32_t>()[0] = kIgnoreTarget;
  trainer_->evaluate(batch, total);
  EXPECT_EQ(total.count, 11);
  EXPECT_EQ(total.correct, 2);
  EXPECT_NEAR(total.loss, (9 * std::log(20.0) + 2 * std::log(20.0 / 11)) / 11, 1e-6);
}

TEST_F(TrainerTest, EvaluationChangesNothing) {
  const Shape sample{3, 8, 8};
  make("resnet", sample);
  Batch batch = images(sample);
  trainer_->step(batch, 0, 1e-3);
  const std::vector<float> mean = get("bn1.running_mean"), weight = get("conv1.weight");
  Evaluation total;
  trainer_->evaluate(batch, total);
  EXPECT_EQ(get("bn1.running_mean"), mean);
  EXPECT_EQ(get("conv1.weight"), weight);
}

TEST_F(TrainerTest, BatchWithoutCountedTargetsChangesNothing) {
  make("gpt", {8});
  Batch batch = tokens();
  std::ranges::fill(batch.at("targets").values<int32_t>(), kIgnoreTarget);
  const std::vector<float> before = get("wte.weight");
  const StepResult result = trainer_->step(batch, 0, 1e-3);
  EXPECT_TRUE(result.skipped);
  EXPECT_EQ(result.loss, 0);
  EXPECT_EQ(get("wte.weight"), before);
}

TEST_F(TrainerTest, InfiniteWeightIsNamedWithItsOpAndStep) {
  make("gpt", {8});
  std::vector<float> weight = get("h.1.mlp.c_fc.weight");
  weight[5] = std::numeric_limits<float>::infinity();
  set("h.1.mlp.c_fc.weight", weight);
  Batch batch = tokens();
  EXPECT_THAT(complaint(batch, 41, 1e-3),
              AllOf(HasSubstr("loss is"), HasSubstr("step 42"), HasSubstr("matmul makes"),
                    HasSubstr("%h.1.mlp.c_fc.weight, which was not finite")));
}

TEST_F(TrainerTest, DivergenceIsToldWithTheFirstOpFromFiniteNumbers) {
  make("mlp", {1, 3, 3});
  Batch batch = images({1, 3, 3});
  EXPECT_EQ(complaint(batch, 0, 1e30), "no complaint");
  const std::vector<float> weight = get("layers.0.weight");
  EXPECT_TRUE(std::isfinite(weight[0]));
  EXPECT_THAT(complaint(batch, 1, 1e30),
              AllOf(HasSubstr("step 2"), HasSubstr("from finite inputs"), HasSubstr("optim.lr")));
  EXPECT_EQ(get("layers.0.weight"), weight) << "weights are kept as they were";
}

// Running statistics are written by the forward part, before anyone knows what the loss will be.
TEST_F(TrainerTest, BadLossLeavesEverythingAsItWas) {
  const Shape sample{3, 8, 8};
  for (int64_t microbatches : {1, 2}) {
    TrainOptions train;
    train.accumulate = microbatches;
    make("resnet", sample, train);
    Batch batch = images(sample);
    EXPECT_EQ(complaint(batch, 0, 1e-3), "no complaint");
    const auto before = everything();
    EXPECT_NE(before.at("bn1.running_mean")[0], 0) << "a good step moves them";
    batch.at("images").values<float>().back() = std::nanf("");  // in the last microbatch
    EXPECT_THAT(complaint(batch, 1, 1e-3), HasSubstr("step 2"));
    EXPECT_EQ(everything(), before) << microbatches << " microbatches";
  }
}

TEST_F(TrainerTest, BadGradientsAreSkippedUpToALimit) {
  TrainOptions train;
  train.max_skipped = 2;
  Batch bad = make_with_steep_loss(train, 1e38f), good = images({1, 3, 3});
  const auto before = everything();
  for (int64_t step : {0, 1}) EXPECT_TRUE(trainer_->step(bad, step, 1e-3).skipped);
  EXPECT_EQ(everything(), before);
  EXPECT_FALSE(trainer_->step(good, 2, 0.0).skipped);
  const auto after = everything();
  for (int64_t step : {3, 4}) EXPECT_TRUE(trainer_->step(bad, step, 1e-3).skipped) << "counted anew";
  EXPECT_THAT(complaint(bad, 5, 1e-3),
              AllOf(HasSubstr("step 6"), HasSubstr("grad.layers.0.weight"), HasSubstr("in a row: 3"),
                    HasSubstr("train.max_skipped = 2"), HasSubstr("optim.lr")));
  EXPECT_EQ(everything(), after);
}

TEST_F(TrainerTest, NormThatIsTooLargeIsToldApart) {
  TrainOptions train;
  train.max_skipped = 0;
  Batch batch = make_with_steep_loss(train, 1e30f);
  EXPECT_THAT(complaint(batch, 0, 1e-3), AllOf(HasSubstr("step 1"), HasSubstr("each gradient is finite")));
}

// From 65536 down to 1 are 16 halvings, whatever train.max_skipped is.
TEST_F(TrainerTest, HalfGivesUpWhenTheLossScaleCannotBeLowered) {
  TrainOptions train;
  train.max_skipped = 2;
  train.precision = "f16";
  Batch batch = make_with_steep_loss(train, 6e4f);
  const auto before = everything();
  for (int64_t step = 0; step < 16; ++step) {
    const double scale = trainer_->loss_scale;
    EXPECT_TRUE(trainer_->step(batch, step, 1e-3).skipped);
    EXPECT_EQ(trainer_->loss_scale, scale / 2);
  }
  EXPECT_THAT(complaint(batch, 16, 1e-3), AllOf(HasSubstr("step 17"), HasSubstr("smallest loss scale"),
                                                HasSubstr("grad.layers.0.weight")));
  EXPECT_EQ(everything(), before);
}

TEST_F(TrainerTest, HalfKeepsItsLossScaleWhenNoTargetCounts) {
  TrainOptions train;
  train.precision = "f16";
  make("gpt", {8}, train);
  Batch batch = tokens();
  std::ranges::fill(batch.at("targets").values<int32_t>(), kIgnoreTarget);
  const double scale = trainer_->loss_scale;
  EXPECT_TRUE(trainer_->step(batch, 0, 1e-3).skipped);
  EXPECT_EQ(trainer_->loss_scale, scale);
}

// At a rate of 0 the weights stay, and each microbatch must find the statistics that the one before it left.
TEST_F(TrainerTest, MicrobatchesMoveRunningStatisticsOneAfterTheOther) {
  const Shape sample{3, 8, 8};
  TrainOptions train;
  train.accumulate = 2;
  make("resnet", sample, train);
  Batch batch = images(sample);
  trainer_->step(batch, 0, 0.0);
  const std::vector<float> mean = get("bn1.running_mean"), var = get("bn1.running_var");
  trainer_.reset();

  ModelOptions model;
  model.family = "resnet";
  model.layers = 8;
  model.classes = 10;
  trainer_ = std::make_unique<Trainer>(model, TrainOptions(), OptimOptions(), StepShape{kRows / 2, sample},
                                       *device_);
  trainer_->initialise(1);
  trainer_->step(batch, 0, 0.0);
  EXPECT_NE(get("bn1.running_mean"), mean) << "half of the batch is not the whole";
  for (auto& [name, tensor] : batch.tensors)
    std::ranges::rotate(tensor.bytes, tensor.bytes.begin() + static_cast<int64_t>(tensor.bytes.size()) / 2);
  trainer_->step(batch, 1, 0.0);
  EXPECT_EQ(get("bn1.running_mean"), mean);
  EXPECT_EQ(get("bn1.running_var"), var);
}

// Which random numbers a microbatch gets: those of its place among all microbatches of the run, none twice.
TEST_F(TrainerTest, EachMicrobatchDropsByItsOwnNumber) {
  ModelOptions model;
  model.layers = 1;
  model.heads = 2;
  model.hidden = 16;
  model.vocab = 20;
  model.seq = 8;
  model.dropout = 0.5;
  const auto trainer_of = [&](int64_t accumulate) {
    TrainOptions train;
    train.accumulate = accumulate;
    auto trainer =
        std::make_unique<Trainer>(model, train, OptimOptions(), StepShape{kRows / 2, {8}}, *device_);
    trainer->initialise(1);
    return trainer;
  };
  // The gradient of microbatch `number` alone: the same rows whichever it is, and no target of others counts.
  const auto gradient = [&](Trainer& trainer, int64_t step, int64_t number) {
    Batch batch = tokens();
    for (int64_t row = 0; row < kRows; ++row) {
      for (const char* name : {"ids", "targets"})
        std::ranges::fill(batch.at(name).row<int32_t>(row), static_cast<int32_t>(row % (kRows / 2)));
      if (row / (kRows / 2) != number)
        std::ranges::fill(batch.at("targets").row<int32_t>(row), kIgnoreTarget);
    }
    trainer.forward_backward(batch, step);
    const std::string name = gradient_name("wte.weight");
    std::vector<float> values(trainer.executor().state_type(name).shape.elements());
    trainer.executor().read_state(name, values.data(), values.size() * sizeof(float));
    return values;
  };
  const auto one = trainer_of(1), two = trainer_of(2);
  std::set<std::vector<float>> seen;
  for (int64_t step = 0; step < 3; ++step) {
    for (int64_t number = 0; number < 2; ++number) {
      const std::vector<float> found = gradient(*two, step, number);
      EXPECT_EQ(found, gradient(*one, 2 * step + number, 0)) << "step " << step << " microbatch " << number;
      EXPECT_TRUE(seen.insert(found).second) << "step " << step << " microbatch " << number;
    }
  }
}

TEST_F(TrainerTest, BatchOfAnotherShapeIsRefused) {
  make("mlp", {1, 3, 3});
  Batch batch = images({1, 4, 3});
  EXPECT_THAT(complaint(batch, 0, 1e-3), AllOf(HasSubstr("images"), HasSubstr("[6,1,3,3]")));
  batch = tokens();
  EXPECT_THAT(complaint(batch, 0, 1e-3), HasSubstr("no tensor 'images'; it has: ids"));
}

}  // namespace
}  // namespace trireme
