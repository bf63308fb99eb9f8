// Kernels of ops that may write over their inputs give the same bits when they do.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/ops/in_place_ways.h"

namespace trireme::testing {

const std::map<std::string, Ways>& ways_in_place() {
  static const Ways first = {{{0, 0}}}, either = {{{0, 0}}, {{0, 1}}};
  static const std::map<std::string, Ways> ways = {
      {"neg", first},
      {"exp", first},
      {"log", first},
      {"sqrt", first},
      {"rsqrt", first},
      {"tanh", first},
      {"erf", first},
      {"sigmoid", first},
      {"relu", first},
      {"gelu", first},
      {"silu", first},
      {"affine", first},
      {"tanh_grad", either},
      {"sigmoid_grad", either},
      {"relu_grad", either},
      {"gelu_grad", either},
      {"silu_grad", either},
      {"add", either},
      {"sub", either},
      {"mul", either},
      {"div", either},
      {"map", either},
      {"matmul_to_f32", {{{0, 2}}}},
      {"select", {{{0, 1}}, {{0, 2}}}},
      {"softmax", first},
      {"softmax_grad", either},
      {"dropout", first},
      {"dropout_add", {{{0, 0}}, {{0, 2}}}},
      {"rope", first},
      {"write_at", first},
      {"cross_entropy_grad", {{{0, 1}}}},
      {"cross_entropy_with_grad", first},
      {"layer_norm", first},
      {"rms_norm", first},
      {"layer_norm_grad", either},
      {"rms_norm_grad", either},
      {"layer_norm_grad_add", {{{0, 0}}, {{0, 5}}}},
      {"rms_norm_grad_add", {{{0, 0}}, {{0, 4}}}},
      {"add_layer_norm", {{{0, 0}}, {{0, 1}}, {{0, 0}, {1, 1}}}},
      {"add_rms_norm", {{{0, 0}}, {{0, 1}}, {{0, 0}, {1, 1}}}},
      {"sgd", first},
      {"momentum", {{{0, 0}, {1, 2}}}},
      {"lars", {{{0, 0}, {1, 2}}}},
      {"adam", {{{0, 0}, {1, 2}, {2, 3}}}},
      {"adam_rounded", {{{0, 0}, {1, 2}, {2, 3}}}},
      {"lamb_direction", {{{0, 1}, {1, 2}, {2, 3}}}},
      {"lamb_apply", first},
      {"add_scaled", either},
      {"residual", either},
      {"renew", either},
      {"top_k", {{{2, 0}}}},
      {"clear_at", first},
      {"orthogonalise", first},
  };
  return ways;
}

bool is_possible(const std::vector<InPlace>& way, const RefTensors& inputs,
                 const std::vector<TensorType>& outputs) {
  return std::ranges::all_of(way, [&](const InPlace& shared) {
    if (shared.input >= static_cast<int>(inputs.size())) return false;
    const RefTensor& input = inputs[shared.input];
    return TensorType{input.dtype, input.shape} == outputs[shared.output];
  });
}

namespace {

void expect_same_in_place(const OpCase& one, DType format) {
  const RefTensors inputs = random_inputs(one, format, /*seed=*/2);
  std::vector<TensorType> types;
  for (const RefTensor& output : one.reference(inputs, one.attrs))
    types.push_back({output.dtype, output.shape});
  const RefTensors apart = run_kernel(one.op, one.attrs, inputs, types, 2);
  for (const auto& way : ways_in_place().at(one.op)) {
    if (!is_possible(way, inputs, types)) continue;
    const RefTensors together = run_kernel(one.op, one.attrs, inputs, types, 2, way);
    for (size_t i = 0; i < apart.size(); ++i) {
      EXPECT_EQ(relative_difference(together[i], apart[i]), 0)
          << one.op << "_" << one.label << " in " << format << ": output " << i << " over input "
          << way[0].input;
    }
  }
}

TEST(InPlace, gives_the_same_bits) {
  for (const OpCase& one : all_cases()) {
    if (!ways_in_place().contains(one.op)) continue;
    expect_same_in_place(one, DType::f32);
    expect_same_in_place(one, DType::bf16);
  }
}

}  // namespace
}  // namespace trireme::testing
