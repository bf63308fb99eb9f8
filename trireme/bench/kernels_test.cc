// Kernels through a device's own memory and stream, in f32 and in bf16, are checked and timed. The device
// is the CPU here, which has no replay; a GPU takes the same way.
#include "trireme/bench/kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/base/error.h"

namespace trireme::bench {
namespace {

constexpr ModelSizes kSmall{.tokens = 1024, .hidden = 64, .vocab = 32, .predicted = 64, .images = 2};

TEST(OnDevice, EveryCaseIsRightAndTimed) {
  ThreadPool pool(2);
  Ceilings ceilings(pool);
  const std::unique_ptr<Device> device = make_cpu_device(2);
  for (const char* filter :
       {"matmul", "attention B", "layer_norm", "gelu", "cross_entropy", "adam", "16, 3x3"}) {
    for (const KernelCase& test : kernel_cases(filter, kSmall)) {
      for (const DType format : {DType::f32, DType::bf16}) {
        const KernelTime time = time_kernel(test, pool, *device, format, ceilings, 0);
        EXPECT_GT(time.median_seconds, 0) << test.name();
        EXPECT_GT(time.cost.bytes, 0) << test.name();
      }
    }
  }
}

// Results that are not what the check expects are an Error, and nothing is timed.
TEST(OnDevice, AWrongResultIsAnError) {
  ThreadPool pool(1);
  Ceilings ceilings(pool);
  const std::unique_ptr<Device> device = make_cpu_device(1);
  KernelCase test = kernel_cases("gelu", kSmall).front();
  test.expected = [](const KernelRun&) { return std::vector<ExpectedElement>{{0, 0, 1e6, 1}}; };
  EXPECT_THAT([&] { time_kernel(test, pool, *device, DType::bf16, ceilings, 0); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("nothing was timed")));
}

}  // namespace
}  // namespace trireme::bench
