// What a node takes without its launch.
#include "trireme/bench/device_ceilings.h"

#include <gtest/gtest.h>

namespace trireme::bench {
namespace {

TEST(LaunchTime, IsTakenOffWhatTheTimerTold) {
  const LaunchTime launch{.seconds = 1, .timed_seconds = 3};
  EXPECT_DOUBLE_EQ(launch.without(10), 7);
  EXPECT_DOUBLE_EQ(launch.without(2), 0.2);  // a launch like any other has some work in it
}

TEST(LaunchTime, IsLittleOfALargeProduct) {
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const LaunchTime launch = measure_launch(*device);
  EXPECT_GT(launch.seconds, 0);
  EXPECT_GT(launch.timed_seconds, 0);
  EXPECT_LT(launch.seconds, measure_product_seconds(*device, DType::f32, 512, 512, 512));
  EXPECT_GT(measure_chain_bytes_per_second(*device, 1 << 22, launch), 1e6);
}

}  // namespace
}  // namespace trireme::bench
