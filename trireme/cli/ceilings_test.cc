// A ceiling that a kernel goes through is none.
#include "trireme/cli/ceilings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "trireme/cli/kernel_run.h"

namespace trireme::cli {
namespace {

double product_flops_per_second(ThreadPool& pool) {
  using Clock = std::chrono::steady_clock;
  const TensorType square{DType::f32, {384, 384}};
  KernelRun product("matmul", {square, square}, {}, Results::kOwnMemory);
  double best = 0;
  for (int i = 0; i < 8; ++i) {
    const Clock::time_point begin = Clock::now();
    product.run(pool);
    best = std::max(best, product.cost().flops / std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

// Both take turns, for a machine with other users has good and bad moments: a sound measurement is above the
// product in the end, and one that waits for anything but the arithmetic never.
TEST(Ceilings, AProductOfMatricesStaysBelow) {
  ThreadPool pool(1);
  Ceilings ceilings(pool);
  double product = 0;
  for (int turn = 0; turn < 8; ++turn) {
    product = std::max(product, product_flops_per_second(pool));
    ceilings.measure_again();
    if (ceilings.flops_per_second() > product) break;
  }
  EXPECT_GT(ceilings.flops_per_second(), product);
  EXPECT_LT(ceilings.flops_per_second(), 8 * product) << "as far above as that no arithmetic can have been done";
}

}  // namespace
}  // namespace trireme::cli
