// What is done before the first step grows with the layers, not with their square.
#include <gtest/gtest.h>

#include <ctime>

#include "trireme/train/trainer.h"

namespace trireme {
namespace {

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double seconds_of_set_up(int64_t layers) {
  const ModelOptions model{.layers = layers, .heads = 2, .hidden = 8, .vocab = 8, .seq = 4};
  const TrainOptions train{.batch = 4};
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const double begin = processor_seconds();
  step_program(model, train, {}, {.rows = 4, .sample = {4}}, *device, {});
  return processor_seconds() - begin;
}

// Eight times the layers: 8 times the work, and at most twice that for what grows with the logarithm and for
// caches; the square would be 64 times. Few layers are measured twice, because the first time memory is new.
double growth(int64_t layers) {
  seconds_of_set_up(layers);
  const double few = seconds_of_set_up(layers);
  return seconds_of_set_up(8 * layers) / few;
}

TEST(SetUpTime, GrowsWithTheLayers) {
  EXPECT_LT(growth(40), 16);
}

}  // namespace
}  // namespace trireme
