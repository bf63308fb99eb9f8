// The same cases on a GPU: every op and format against the reference, twice with the same bits, over its
// inputs where it may; dropout with the CPU's mask; and what has no CUDA kernel is written down. Without a
// GPU the cases are skipped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/ops/device_runner.h"
#include "tests/ops/in_place_ways.h"
#include "tests/ops/tolerance.h"
#include "trireme/ir/pieces.h"
#include "trireme/kernels/cuda/table.h"
#include "trireme/ops/table.h"

namespace trireme::testing {
namespace {

// The GPU, started once; null where there is none.
Device* gpu() {
  static const std::unique_ptr<Device> device = cuda_device_count() > 0 ? make_cuda_device(0) : nullptr;
  return device.get();
}

#define TRIREME_NEEDS_GPU() \
  if (!gpu()) GTEST_SKIP() << "no GPU here"

void expect_same(const RefTensors& found, const RefTensors& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(relative_difference(found[i], expected[i]), 0) << what << ": output " << i;
}

class CudaKernel : public ::testing::TestWithParam<OpCase> {
 protected:
  void expect_matches_reference(DType format) {
    TRIREME_NEEDS_GPU();
    const OpCase& one = GetParam();
    if (std::ranges::find(kNoCudaKernels, one.op, &NoCudaKernel::op) != std::end(kNoCudaKernels))
      GTEST_SKIP() << "there is no CUDA kernel";
    if (one.attrs.integer("elias", 0) != 0) GTEST_SKIP() << "a GPU refuses Elias' codes";
    if (has_pieces(one.attrs) && one.op.find("dropout") == one.op.npos)
      GTEST_SKIP() << "a GPU takes one run of a sequence";
    const RefTensors inputs = random_inputs(one, format, /*seed=*/1);
    const RefTensors expected = one.reference(inputs, one.attrs);
    const std::vector<TensorType> types = types_of(expected);
    const RefTensors found = run_on_device(*gpu(), one.op, one.attrs, inputs, types);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_LE(relative_difference(found[i], expected[i]), tolerance(one, format)) << "output " << i;
    expect_same(run_on_device(*gpu(), one.op, one.attrs, inputs, types), found, "run again");
    const auto ways = ways_in_place().find(one.op);
    if (ways == ways_in_place().end()) return;
    for (const auto& way : ways->second) {
      if (!is_possible(way, inputs, types)) continue;
      expect_same(run_on_device(*gpu(), one.op, one.attrs, inputs, types, way), found, "in place");
    }
  }
};

TEST_P(CudaKernel, f32) {
  expect_matches_reference(DType::f32);
}
TEST_P(CudaKernel, bf16) {
  expect_matches_reference(DType::bf16);
}
TEST_P(CudaKernel, f16) {
  expect_matches_reference(DType::f16);
}
INSTANTIATE_TEST_SUITE_P(Ops, CudaKernel, ::testing::ValuesIn(all_cases()),
                         [](const auto& tested) { return case_name(tested.param); });

TEST(Cuda, DropoutHasTheMaskOfTheCpu) {
  TRIREME_NEEDS_GPU();
  for (const OpCase& one : all_cases()) {
    if (one.op != "dropout") continue;
    const RefTensors inputs = random_inputs(one, DType::f32, /*seed=*/3);
    const std::vector<TensorType> types = types_of(one.reference(inputs, one.attrs));
    expect_same(run_on_device(*gpu(), one.op, one.attrs, inputs, types),
                run_kernel(one.op, one.attrs, inputs, types, 1), one.label);
  }
}

// Logits that are whole numbers are often equal: the expert with the lower number is chosen then.
TEST(Cuda, ExpertsAndSlotsAreThoseOfTheCpu) {
  TRIREME_NEEDS_GPU();
  for (const OpCase& one : expert_cases()) {
    const bool by_scores = one.op == "route" && one.inputs.size() == 2;  // sums of them are rounded
    if ((one.op != "route" && one.op != "slots") || by_scores) continue;
    RefTensors inputs = random_inputs(one, DType::f32, /*seed=*/5);
    const std::vector<TensorType> types = types_of(one.reference(inputs, one.attrs));
    if (one.op == "route") {
      for (double& value : inputs[0].values) value = std::round(value);
    }
    const RefTensors found = run_on_device(*gpu(), one.op, one.attrs, inputs, types),
                     expected = run_kernel(one.op, one.attrs, inputs, types, 1);
    for (size_t i = 0; i < expected.size(); ++i) {
      if (one.op == "route" && i == 0) continue;  // weights are rounded
      EXPECT_EQ(found[i].values, expected[i].values) << case_name(one) << ": output " << i;
    }
  }
}

// A router's product is f32 even where others may be rounded.
TEST(Cuda, ProductsOfRoutersAreNeverRoundedToTf32) {
  TRIREME_NEEDS_GPU();
  const std::unique_ptr<Device> rounding = make_cuda_device(0, {}, F32Products::kTf32);
  OpCase product{"matmul_f32", "router", {{{512, 256}}, {{256, 64}}}, {}, nullptr};
  const RefTensors inputs = random_inputs(product, DType::f32, /*seed=*/6);
  const std::vector<TensorType> types = {{DType::f32, {512, 64}}};
  const RefTensors expected = run_kernel(product.op, {}, inputs, types, 4);
  const auto error = [&](const char* op) {
    return relative_difference(run_on_device(*rounding, op, {}, inputs, types)[0], expected[0]);
  };
  EXPECT_LE(error("matmul_f32"), 1e-5);
  EXPECT_GT(error("matmul"), 5e-5)
      << "TF32 is not used even where it may be, so that this test can not see it";
}

// Shapes for which cuDNN proposes TF32 first: its error is near 3e-4, that of f32, in sums of 65,536
// products, below 3e-5.
TEST(Cuda, F32ConvolutionIsRoundedToTf32WhereItMayBe) {
  TRIREME_NEEDS_GPU();
  const std::unique_ptr<Device> rounding = make_cuda_device(0, {}, F32Products::kTf32);
  int seen = 0;
  for (OpCase& one : conv_cases()) {
    if (one.label != "resnet20_16") continue;
    for (CaseInput& input : one.inputs) {
      if (input.shape[0] == 1) input.shape.set(0, 64);  // images; filters are more than one
    }
    const RefTensors inputs = random_inputs(one, DType::f32, /*seed=*/4);
    const std::vector<TensorType> types = types_of(one.reference(inputs, one.attrs));
    const RefTensors expected = run_kernel(one.op, one.attrs, inputs, types, 4);
    const auto error = [&](Device& device) {
      return relative_difference(run_on_device(device, one.op, one.attrs, inputs, types)[0], expected[0]);
    };
    EXPECT_LE(error(*gpu()), 5e-5) << case_name(one);
    EXPECT_LE(error(*rounding), 2e-3) << case_name(one);
    seen += error(*rounding) > 1e-4;
  }
  EXPECT_GT(seen, 0) << "TF32 is not used even where it may be, so that this test can not see it";
}

// The formats in which nodes of the op can be: f32 alone where its first floating-point input is always f32,
// and bytes where it has nothing else.
std::vector<DType> formats_of(const OpRecord& record) {
  const auto is_bytes = [](DTypeRule rule) { return rule == DTypeRule::kU8; };
  // Operands past the end of a list are of the format.
  if (!record.inputs.empty() && std::ranges::all_of(record.inputs, is_bytes) && !record.outputs.empty() &&
      std::ranges::all_of(record.outputs, is_bytes))
    return {DType::u8};
  for (const DTypeRule rule : record.inputs) {
    if (rule == DTypeRule::kF32) return {DType::f32};
    if (rule == DTypeRule::kFormat || rule == DTypeRule::kAny) break;
  }
  return {DType::f32, DType::bf16, DType::f16};
}

TEST(Cuda, EveryOpHasAKernelOrAReason) {
  std::set<std::string_view> without;
  for (const NoCudaKernel& none : kNoCudaKernels) {
    EXPECT_NE(ops().find(none.op), nullptr) << none.op;
    EXPECT_GT(none.reason.size(), 10u) << none.op;
    without.insert(none.op);
  }
  for (const std::string& name : ops().names()) {
    const OpRecord& record = ops().at(name);
    if (record.memory == OpRecord::Memory::kShared) continue;
    for (DType format : formats_of(record))
      EXPECT_NE(cuda_kernels().find(name, format) != nullptr, without.contains(name))
          << name << " in " << format;
  }
  for (const auto& [key, kernel] : cuda_kernels().all())
    EXPECT_NE(ops().find(key.first), nullptr) << key.first;
}

TEST(Cuda, AMissingGpuIsToldWithWhatToDo) {
  if (cuda_device_count() > 0) GTEST_SKIP() << "there is a GPU";
  EXPECT_THAT([] { make_device({.kind = "cuda"}); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("no GPU")));
}

TEST(Cuda, AGpuThatIsNotThereIsRefused) {
  TRIREME_NEEDS_GPU();
  EXPECT_THAT([] { make_cuda_device(99); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("GPU 99 was asked for")));
}

}  // namespace
}  // namespace trireme::testing
