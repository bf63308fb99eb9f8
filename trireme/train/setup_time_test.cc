// What is done before the first step grows with the layers, not with their square.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "trireme/train/trainer.h"

namespace trireme {
namespace {

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double seconds_of_set_up(int64_t layers, const Plan& plan) {
  const ModelOptions model{.layers = layers, .heads = 2, .hidden = 8, .vocab = 8, .seq = 4};
  const TrainOptions train{.batch = 4};
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const double begin = processor_seconds();
  step_program(model, train, {}, {.rows = 4, .sample = {4}}, *device, {plan, /*rank=*/0, nullptr});
  return processor_seconds() - begin;
}

// Sixteen times the layers: 16 times the work, and at most twice that for what grows with the logarithm and
// for caches; the square would be 256 times. The first of two is for memory that is used for the first time.
double growth(const Plan& plan) {
  const auto least = [&](int64_t layers) {
    return std::min(seconds_of_set_up(layers, plan), seconds_of_set_up(layers, plan));
  };
  const double few = least(16), many = least(256);
  return many / few;
}

TEST(SetUpTime, GrowsWithTheLayersOnOneRank) {
  EXPECT_LT(growth({}), 32);
}

TEST(SetUpTime, GrowsWithTheLayersOfASpreadModel) {
  EXPECT_LT(growth({.mesh = Mesh({{"data", 2}, {"tensor", 2}}), .preset = "zero1+megatron"}), 32);
}

}  // namespace
}  // namespace trireme
