// A ceiling that a kernel goes through is none.
#include "trireme/bench/ceilings.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/times.h"
#include "trireme/base/statistics.h"
#include "trireme/bench/kernel_run.h"

namespace trireme::bench {
namespace {

// The median of many, by the time that the one thread was running, so that other users of the machine do not
// hide a ceiling that is too low.
double product_flops_per_second(ThreadPool& pool) {
  const CaseInput square{{512, 512}};
  KernelRun product("matmul", {square, square}, {}, Results::kOwnMemory);
  std::vector<double> rates;
  for (int i = 0; i < 9; ++i) {
    const double begin = processor_seconds();
    product.run(pool);
    rates.push_back(product.cost().flops / (processor_seconds() - begin));
  }
  return median_of(std::move(rates));
}

TEST(Ceilings, AProductOfMatricesStaysBelow) {
  ThreadPool pool(1);
  const double product = product_flops_per_second(pool), ceiling = measure_flops_per_second(pool);
  EXPECT_GT(1.05 * ceiling, product);  // clocks err to both sides
  EXPECT_LT(ceiling, 30 * product) << "no arithmetic can have been done";
}

}  // namespace
}  // namespace trireme::bench
