// Kernels through a device's own memory and stream, in f32 and in bf16, are checked and timed. The device
// is the CPU here, which has no replay; a GPU takes the same way.
#include "trireme/bench/kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include "trireme/base/error.h"

namespace trireme::bench {
namespace {

constexpr ModelSizes kSmall{.tokens = 1024, .hidden = 64, .vocab = 32, .predicted = 64, .images = 2};

// A run is no longer than all that was done to time it, and no shorter than on a machine of 100 TFLOP/s and
// 100 TB/s.
void expect_plausible(const KernelCase& test, const std::function<KernelTime()>& time_it) {
  const auto begin = std::chrono::steady_clock::now();
  const KernelTime time = time_it();
  const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - begin;
  EXPECT_GT(time.median_seconds, std::max(time.cost.flops, time.cost.bytes) / 1e14) << test.name();
  EXPECT_LT(time.median_seconds, whole.count()) << test.name();
  // What it reads and writes is at least its operands.
  EXPECT_GE(time.cost.bytes, 1024) << test.name();
}

TEST(OnDevice, EveryCaseIsRightAndTimed) {
  ThreadPool pool(2);
  Ceilings ceilings(pool);
  const std::unique_ptr<Device> device = make_cpu_device(2);
  for (const char* filter :
       {"matmul", "attention B", "layer_norm", "gelu", "cross_entropy", "adam", "16, 3x3"}) {
    for (const KernelCase& test : kernel_cases(filter, kSmall)) {
      for (const DType format : {DType::f32, DType::bf16})
        expect_plausible(test, [&] { return time_kernel(test, pool, *device, format, ceilings, 0); });
    }
  }
}

// Of gelu all elements, once read and once written, in either format.
TEST(OnDevice, BytesAreThoseOfTheFormat) {
  ThreadPool pool(1);
  Ceilings ceilings(pool);
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const KernelCase test = kernel_cases("gelu", kSmall).front();
  const double elements = static_cast<double>(test.inputs[0].shape.elements());
  EXPECT_EQ(time_kernel(test, pool, *device, DType::f32, ceilings, 0).cost.bytes, 2 * 4 * elements);
  EXPECT_EQ(time_kernel(test, pool, *device, DType::bf16, ceilings, 0).cost.bytes, 2 * 2 * elements);
}

TEST(OnCpu, TheLargestElementsAreSelectedRightAndTimed) {
  ThreadPool pool(2);
  Ceilings ceilings(pool);
  ModelSizes sizes = kSmall;
  EXPECT_THROW(kernel_cases("top_k", sizes), Error) << "there is no gradient to select from";
  for (const int64_t elements : {5000, 200000}) {
    sizes.gradient = elements;
    const KernelCase test = kernel_cases("top_k", sizes).front();
    expect_plausible(test, [&] { return time_kernel(test, pool, ceilings, 0); });

    KernelRun run(test.op, test.inputs, test.attrs, Results::kOwnMemory);
    run.run(pool);
    const auto wrong = [&] {
      return std::ranges::count_if(test.expected(run), [&](const ExpectedElement& e) {
        return std::abs(run.out(e.output)[e.index] - e.value) > 1e-6;
      });
    };
    EXPECT_EQ(wrong(), 0);
    run.in(0)[elements - 1] = 100;  // as if the largest of all had been left where it was
    EXPECT_GT(wrong(), 0);
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
