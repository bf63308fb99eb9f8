// Training in 16 bits. There is no recorded run in 16 bits: PyTorch's kernels round in other places, so bits
// could not be compared, and what a user wants is the f32 result. Losses must follow PyTorch's f32 run within
// the rounding of the format: half a unit in the last place of a value near 4 is 2^-8 of it in bf16 and 2^-11
// in f16, and rounding of many values averages out in the mean. The bounds are about four times what is seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "golden.h"

namespace trireme::parity {
namespace {

std::unique_ptr<Trainer> make_trainer(const Golden& golden, Device& device) {
  auto trainer = std::make_unique<Trainer>(golden.model, golden.train, golden.optim, golden.shape, device);
  start(*trainer, golden);
  return trainer;
}

struct HalfCase {
  const char* golden;
  const char* precision;
  double bound;
};
std::ostream& operator<<(std::ostream& out, const HalfCase& c) {
  return out << c.golden << " in " << c.precision;
}
class Half : public testing::TestWithParam<HalfCase> {};

TEST_P(Half, LossesFollowF32) {
  Golden golden = read_golden(GetParam().golden);
  golden.train.precision = GetParam().precision;
  const std::unique_ptr<Device> one = make_cpu_device(1), two = make_cpu_device(2);
  const std::unique_ptr<Trainer> trainer = make_trainer(golden, *one), threaded = make_trainer(golden, *two);
  const std::vector<StepResult> results = train(*trainer, golden, 0, golden.steps());
  train(*threaded, golden, 0, golden.steps());
  double worst = 0;
  for (int64_t step = 0; step < golden.steps(); ++step) {
    EXPECT_FALSE(results[step].skipped) << "step " << step;
    EXPECT_NEAR(results[step].loss, golden.losses[step], GetParam().bound * golden.losses[step])
        << "step " << step;
    worst = std::max(worst, std::abs(results[step].loss / golden.losses[step] - 1));
  }
  RecordProperty("worst_loss", fmt::format("{:.1e}", worst));
  EXPECT_GT(worst, 1e-6) << "this looks like f32";
  EXPECT_TRUE(read_states(*trainer) == read_states(*threaded)) << "differs between one thread and two";
}

INSTANTIATE_TEST_SUITE_P(Cases, Half,
                         testing::Values(HalfCase{"gpt", "bf16", 4e-3}, HalfCase{"gpt", "f16", 4e-4},
                                         HalfCase{"llama", "bf16", 4e-3}, HalfCase{"llama", "f16", 4e-4},
                                         HalfCase{"resnet20", "bf16", 8e-2}),
                         [](const auto& param) {
                           return std::string(param.param.golden) + "_" + param.param.precision;
                         });

class Overflow : public testing::Test {
 protected:
  Overflow() : device_(make_cpu_device(1)) {
    golden_.train.precision = "f16";
    trainer_ = make_trainer(golden_, *device_);
  }
  StepResult step() {
    Batch batch = make_batch(golden_, 0);
    return trainer_->step(batch, 0, 1e-3);
  }
  Golden golden_ = read_golden("gpt");
  std::unique_ptr<Device> device_;
  std::unique_ptr<Trainer> trainer_;
};

TEST_F(Overflow, SkipsTheStepAndHalvesTheScale) {
  step();  // so that moments are not zero
  const States before = read_states(*trainer_);
  trainer_->loss_scale = 1e20;
  trainer_->scale_age = 5;
  const StepResult result = step();
  EXPECT_TRUE(result.skipped);
  EXPECT_TRUE(std::isfinite(result.loss));
  EXPECT_EQ(trainer_->loss_scale, 5e19);
  EXPECT_EQ(trainer_->scale_age, 0);
  EXPECT_TRUE(read_states(*trainer_) == before);
}

TEST_F(Overflow, ScaleFallsUntilStepsSucceed) {
  trainer_->loss_scale = 65536;
  int skipped = 0;
  while (step().skipped) ASSERT_LT(++skipped, 20);
  EXPECT_GT(skipped, 0);
  EXPECT_EQ(trainer_->loss_scale, std::ldexp(65536, -skipped));
}

TEST_F(Overflow, ScaleGrowsAfterManyGoodSteps) {
  const double scale = trainer_->loss_scale;
  trainer_->scale_age = 999;
  EXPECT_FALSE(step().skipped);
  EXPECT_EQ(trainer_->loss_scale, 2 * scale);
  EXPECT_EQ(trainer_->scale_age, 0);
}

// Where even the smallest scale overflows, nothing would change any more, for ever. Large inputs, no first
// weights and large later ones: the loss is finite, the gradient of the first weights is not.
TEST(OverflowAtTheSmallestScale, IsAnError) {
  Golden golden = read_golden("mlp");
  golden.train.precision = "f16";
  golden.tensors.at("layers.0.weight").scale = 0;
  golden.tensors.at("layers.0.bias").shift = 1e-4;
  golden.tensors.at("layers.0.bias").scale = 0;
  golden.tensors.at("layers.1.weight").scale *= 100;
  golden.tensors.at("layers.2.weight").scale *= 100;
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const std::unique_ptr<Trainer> trainer = make_trainer(golden, *device);
  Batch batch = make_batch(golden, 0);
  std::ranges::fill(batch.at("images").values<float>(), 6e4f);
  try {
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(trainer->step(batch, i, 1e-3).skipped);
    FAIL() << "skipped for ever";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("smallest loss scale"));
  }
}

}  // namespace
}  // namespace trireme::parity
