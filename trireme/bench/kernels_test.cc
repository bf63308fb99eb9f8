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
        expect_plausible(test, [&] { return time_kernel(test, *device, format, ceilings, 0); });
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
  EXPECT_EQ(time_kernel(test, *device, DType::f32, ceilings, 0).cost.bytes, 2 * 4 * elements);
  EXPECT_EQ(time_kernel(test, *device, DType::bf16, ceilings, 0).cost.bytes, 2 * 2 * elements);
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
    EXPECT_NO_THROW(check_results(test, run));
    run.in(0)[elements - 1] = 100;  // as if the largest of all had been left where it was
    EXPECT_THROW(check_results(test, run), Error);
  }
}

// Large operands are compared in parts: a wrong element at either end is found, wherever the parts are cut.
TEST(OnCpu, AWrongElementAtEitherEndIsFound) {
  ThreadPool pool(2);
  for (const char* filter : {"matmul 2048x384 ·", "attention_grad B8", "conv2d_grad_weight 64x3x"}) {
    const KernelCase test = kernel_cases(filter).front();
    KernelRun run(test.op, test.inputs, test.attrs, Results::kOwnMemory);
    run.run(pool);
    EXPECT_NO_THROW(check_results(test, run)) << test.name();
    for (int output = 0; output < std::ssize(run.outputs()); ++output) {
      for (const int64_t at : {int64_t{0}, run.outputs()[output].elements() - 1}) {
        float& element = run.out(output)[at];
        const float right = element;
        element += 0.1f * std::max(1.0f, std::abs(right));
        EXPECT_THROW(check_results(test, run), Error) << test.name() << " " << output << " " << at;
        element = right;
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
  test.reference = [](const RefTensors& in, const Attrs&) {
    RefTensors wrong = in;
    wrong[0].values[0] = 1e6;
    return wrong;
  };
  EXPECT_THAT([&] { time_kernel(test, *device, DType::bf16, ceilings, 0); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("nothing was timed")));
}

}  // namespace
}  // namespace trireme::bench
