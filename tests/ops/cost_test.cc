// The cost that an op's record states is a number one can plan with: finite, and each operand's bytes once.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/ops/case_runner.h"
#include "trireme/ops/table.h"

namespace trireme::testing {
namespace {

class CostOfCase : public ::testing::TestWithParam<OpCase> {};

TEST_P(CostOfCase, IsFinite) {
  const OpCase& one = GetParam();
  const OpRecord& record = ops().at(one.op);
  std::vector<TensorType> inputs;
  for (const CaseInput& input : one.inputs) inputs.push_back({input.dtype, input.shape});
  size_t bytes = 0;
  for (const TensorType& type : inputs) bytes += type.bytes();
  for (const TensorType& type : infer_types(record, inputs, one.attrs)) bytes += type.bytes();
  const Cost cost = cost_of(record, inputs, one.attrs);
  EXPECT_TRUE(std::isfinite(cost.flops));
  EXPECT_GE(cost.flops, 0);
  const bool computes = record.memory != OpRecord::Memory::kShared;
  EXPECT_EQ(cost.bytes, computes ? static_cast<double>(bytes) : 0);
}

// The scalar that comes first is not what the op works on.
TEST(Cost, OfCrossEntropysGradientIsByItsLogits) {
  const TensorType scalar{DType::f32, {}}, logits{DType::f32, {4, 10}}, targets{DType::i32, {4}},
      lse{DType::f32, {4}};
  const OpRecord& record = ops().at("cross_entropy_grad");
  EXPECT_EQ(cost_of(record, {scalar, logits, targets, lse}, {{"ignore_index", int64_t{-1}}}).flops, 200);
}

INSTANTIATE_TEST_SUITE_P(Ops, CostOfCase, ::testing::ValuesIn(all_cases()), [](const auto& tested) {
  return case_name(tested.param) + "_" + std::to_string(tested.index);
});

}  // namespace
}  // namespace trireme::testing
