// Microbatches: four of two rows are one of eight, up to rounding, also when their targets are uneven.
#include <gtest/gtest.h>

#include <cmath>

#include "golden.h"

namespace trireme::parity {
namespace {

// One step of plain gradient descent at rate 1 and without clipping, so that weights show gradients.
States one_step(Golden golden, int64_t accumulate, double& loss) {
  golden.shape.rows = golden.shape.rows * golden.train.accumulate / accumulate;
  golden.train.accumulate = accumulate;
  golden.train.clip_norm = 0;
  golden.optim.kind = "sgd";
  golden.optim.weight_decay = 0;
  const std::unique_ptr<Device> device = make_cpu_device(1);
  Trainer trainer(golden.model, golden.train, golden.optim, golden.shape, *device);
  start(trainer, golden);
  Batch batch = make_batch(golden, 0);
  loss = trainer.step(batch, 0, 1.0).loss;
  return read_states(trainer);
}

class Accumulate : public testing::TestWithParam<const char*> {};

TEST_P(Accumulate, FourMicrobatchesAreOneBatch) {
  const Golden golden = read_golden(GetParam());
  double whole_loss = 0, parts_loss = 0;
  const States whole = one_step(golden, 1, whole_loss), parts = one_step(golden, 4, parts_loss);
  EXPECT_NEAR(whole_loss, parts_loss, 1e-6 * whole_loss);
  for (const auto& [name, values] : whole) {
    const std::vector<float>& others = parts.at(name);
    const std::vector<float> from = starting_values(golden, name);
    double largest = 0, difference = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(values[i]) - from[i]));
      difference = std::max(difference, std::abs(static_cast<double>(values[i]) - others[i]));
    }
    // The largest element of the gradient, and the rounding of weights near 1 that it is taken off.
    EXPECT_LE(difference, 1e-5 * largest + 4e-7) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Accumulate,
                         testing::Values("gpt", "gpt_ignored", "llama_accumulated", "mlp", "lenet"),
                         [](const auto& param) { return std::string(param.param); });

TEST(Accumulate, ShortBatchesAreRefused) {
  const Golden golden = read_golden("llama_accumulated");
  const std::unique_ptr<Device> device = make_cpu_device(1);
  Trainer trainer(golden.model, golden.train, golden.optim, golden.shape, *device);
  start(trainer, golden);
  Golden half = golden;
  half.train.accumulate = 2;
  Batch batch = make_batch(half, 0);
  EXPECT_THROW(trainer.step(batch, 0, 1e-3), Error);
}

}  // namespace
}  // namespace trireme::parity
