// Updates that are lost, and gradients that underflow, on a line whose numbers are known.
#include "trireme/train/numeric_health.h"

#include <gtest/gtest.h>

#include "trireme/train/trainer.h"

namespace trireme {
namespace {

using Counts = NumberCounts;

// y = w·x + b with 8 weights near 1 (no 0 among them) and a bias of 0; targets far away, so that each
// gradient is of the size of 1.
ModelRecord eight_weights() {
  ModelRecord model{.family = "eight", .inputs = {{"x", DType::f32, {8}}, {"y", DType::f32, {1}}}};
  model.loss = [](Network& net, const ModelOptions&, std::span<const ValueId> inputs) {
    return net.squared_error(
        net.linear(inputs[0], "line", 1, Network::Store::kInOut, Init::ones(), Bias::kZeros), inputs[1]);
  };
  return model;
}

Batch one_row(const ModelRecord& model) {
  Batch batch;
  batch.rows = 1;
  for (const SampleTensor& tensor : model.inputs) {
    Shape shape{1};
    for (const int64_t extent : tensor.row) shape.push_back(extent);
    batch.tensors.emplace_back(tensor.name, HostTensor()).second.reset(tensor.dtype, shape);
  }
  for (float& x : batch.at("x").row<float>(0)) x = 1;
  batch.at("y").row<float>(0)[0] = 10;
  return batch;
}

StepNumbers numbers_of(const std::string& precision, double rate, double loss_scale = 1) {
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const ModelRecord model = eight_weights();
  Trainer trainer(model, {.precision = precision, .clip_norm = 0, .numbers_every = 2},
                  {.kind = "sgd", .weight_decay = 0}, {.rows = 1}, *device);
  trainer.initialise(1);
  trainer.loss_scale = loss_scale;
  Batch batch = one_row(model);
  EXPECT_FALSE(trainer.step(batch, 0, rate).numbers);
  const StepResult done = trainer.step(batch, 1, rate);
  EXPECT_FALSE(done.skipped);
  return done.numbers.value();
}
const NumberCounts& matrices(const StepNumbers& numbers) {
  return numbers[static_cast<size_t>(TensorKind::kMatrix)];
}
const NumberCounts& vectors(const StepNumbers& numbers) {
  return numbers[static_cast<size_t>(TensorKind::kVector)];
}

TEST(NumericHealth, CountsEachElementOnce) {
  const StepNumbers numbers = numbers_of("f32", 0.01);
  EXPECT_EQ(matrices(numbers).of, (decltype(Counts::of){8, 0, 0, 0, 8, 0, 8, 0, 0}));
  EXPECT_EQ(vectors(numbers).of, (decltype(Counts::of){1, 0, 0, 0, 1, 0, 1, 0, 0}));
}

// An update of some 4e-9 is less than half of the last digit of 1, but not of the bias, which is near 0.
TEST(NumericHealth, FindsUpdatesThatWeightsSwamp) {
  const StepNumbers numbers = numbers_of("f32", 1e-9);
  EXPECT_EQ(matrices(numbers).share(Counts::kLostUpdates, Counts::kUpdates), 1);
  EXPECT_EQ(vectors(numbers).share(Counts::kLostUpdates, Counts::kUpdates), 0);
}

TEST(NumericHealth, FindsUpdatesThatSixteenBitWeightsWouldLose) {
  const StepNumbers numbers = numbers_of("bf16", 1e-4);
  EXPECT_EQ(matrices(numbers).share(Counts::kLostUpdates, Counts::kUpdates), 0);
  EXPECT_EQ(matrices(numbers).share(Counts::kLostInFormat, Counts::kUpdates), 1);
}

TEST(NumericHealth, FindsGradientsThatUnderflow) {
  const NumberCounts scaled = matrices(numbers_of("f16", 1e-3, 64)),
                     small = matrices(numbers_of("f16", 1e-3, 0x1p-18)),
                     lost = matrices(numbers_of("f16", 1e-3, 0x1p-40));
  EXPECT_EQ(scaled.of[Counts::kSubnormalGradients] + scaled.of[Counts::kZeroGradients], 0);
  EXPECT_EQ(small.share(Counts::kSubnormalGradients, Counts::kGradients), 1);
  EXPECT_EQ(lost.share(Counts::kZeroGradients, Counts::kGradients), 1);
  EXPECT_EQ(lost.of[Counts::kUpdates], 0);
}

}  // namespace
}  // namespace trireme
