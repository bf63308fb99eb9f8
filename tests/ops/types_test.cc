// Second way: the types that an op's record infers are those of the reference's results, in every number
// format, and its cost is a number one can plan with.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/ops/case_runner.h"
#include "trireme/ops/table.h"

namespace trireme::testing {
namespace {

class TypesOfCase : public ::testing::TestWithParam<OpCase> {};

TEST_P(TypesOfCase, AreThoseOfTheReference) {
  const OpCase& one = GetParam();
  const OpRecord& record = ops().at(one.op);
  for (DType format : {DType::f32, DType::bf16, DType::f16}) {
    const RefTensors inputs = random_inputs(one, format, /*seed=*/1);
    const std::vector<TensorType> expected = types_of(one.reference(inputs, one.attrs));
    EXPECT_EQ(infer_types(record, types_of(inputs), one.attrs), expected) << "in " << format;
  }
}

TEST_P(TypesOfCase, CostIsFinite) {
  const OpCase& one = GetParam();
  const OpRecord& record = ops().at(one.op);
  const std::vector<TensorType> inputs = types_of(random_inputs(one, DType::f32, /*seed=*/1));
  size_t bytes = 0;
  for (const TensorType& type : inputs) bytes += type.bytes();
  for (const TensorType& type : infer_types(record, inputs, one.attrs)) bytes += type.bytes();
  const Cost cost = cost_of(record, inputs, one.attrs);
  EXPECT_TRUE(std::isfinite(cost.flops));
  EXPECT_GE(cost.flops, 0);
  const bool computes = record.memory != OpRecord::Memory::kShared;
  EXPECT_EQ(cost.bytes, computes ? static_cast<double>(bytes) : 0);
}

INSTANTIATE_TEST_SUITE_P(Ops, TypesOfCase, ::testing::ValuesIn(correctness_cases()),
                         [](const auto& tested) { return case_name(tested.param); });

}  // namespace
}  // namespace trireme::testing
