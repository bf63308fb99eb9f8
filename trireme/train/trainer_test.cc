// Starting values, evaluation, and what a person is told when numbers stop being numbers. Steps themselves
// are compared with PyTorch's in tests/parity.
#include "trireme/train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "trireme/base/error.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kRows = 6;

class TrainerTest : public testing::Test {
 protected:
  void make(const char* family, const Shape& sample) {
    ModelOptions model;
    model.family = family;
    model.layers = family == std::string("resnet") ? 8 : 2;
    model.heads = 2;
    model.hidden = 16;
    model.vocab = 20;
    model.seq = 8;
    model.classes = 10;
    trainer_ =
        std::make_unique<Trainer>(model, TrainOptions(), OptimOptions(), StepShape{kRows, sample}, *device_);
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
    std::vector<float> values(trainer_->executor().state(name).elements());
    trainer_->executor().read_state(name, values.data(), values.size() * sizeof(float));
    return values;
  }
  void set(const std::string& name, const std::vector<float>& values) {
    trainer_->executor().write_state(name, values.data(), values.size() * sizeof(float));
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

TEST_F(TrainerTest, BatchOfAnotherShapeIsRefused) {
  make("mlp", {1, 3, 3});
  Batch batch = images({1, 4, 3});
  EXPECT_THAT(complaint(batch, 0, 1e-3), AllOf(HasSubstr("images"), HasSubstr("[6,1,3,3]")));
  batch = tokens();
  EXPECT_THAT(complaint(batch, 0, 1e-3), HasSubstr("no input 'ids'"));
}

}  // namespace
}  // namespace trireme
