// First way: every kernel against its naive double-precision reference, in all three number formats,
// with the same bits for any number of threads, and with results of the types that the record infers.
#include <gtest/gtest.h>

#include "tests/ops/case_runner.h"
#include "tests/ops/tolerance.h"
#include "trireme/ops/table.h"

namespace trireme::testing {
namespace {

class KernelAgainstReference : public ::testing::TestWithParam<OpCase> {};

void expect_matches_reference(const OpCase& one, DType format) {
  const RefTensors inputs = random_inputs(one, format, /*seed=*/1);
  const RefTensors expected = one.reference(inputs, one.attrs);
  const std::vector<TensorType> types = types_of(expected);
  EXPECT_EQ(infer_types(ops().at(one.op), types_of(inputs), one.attrs), types) << "in " << format;
  const RefTensors one_thread = run_kernel(one.op, one.attrs, inputs, types, 1);
  const RefTensors three_threads = run_kernel(one.op, one.attrs, inputs, types, 3);
  ASSERT_EQ(one_thread.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LE(relative_difference(one_thread[i], expected[i]), tolerance(one, format))
        << "output " << i << " in " << format;
    EXPECT_EQ(relative_difference(one_thread[i], three_threads[i]), 0)
        << "output " << i << " in " << format << " depends on the number of threads";
  }
}

TEST_P(KernelAgainstReference, f32) {
  expect_matches_reference(GetParam(), DType::f32);
}
TEST_P(KernelAgainstReference, bf16) {
  expect_matches_reference(GetParam(), DType::bf16);
}
TEST_P(KernelAgainstReference, f16) {
  expect_matches_reference(GetParam(), DType::f16);
}

INSTANTIATE_TEST_SUITE_P(Ops, KernelAgainstReference, ::testing::ValuesIn(all_cases()),
                         [](const auto& tested) { return case_name(tested.param); });

}  // namespace
}  // namespace trireme::testing
