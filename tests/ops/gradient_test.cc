// Second way: the gradient that autodiff builds from an op's record, run on the CPU kernels, against central
// differences of the double-precision reference. The loss is the sum of the differentiable results, each
// element times a fixed random weight. Differences are taken along one random direction through all elements
// of an input, which costs two evaluations however large it is, and along a few single elements.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/ops/case_runner.h"
#include "trireme/base/rng.h"
#include "trireme/ops/table.h"
#include "trireme/passes/autodiff.h"
#include "trireme/runtime/executor.h"

namespace trireme::testing {
namespace {

constexpr double kStep = 1e-6;
constexpr int kSingleElements = 4;  // per input

std::vector<double> random_values(size_t count, std::string_view what) {
  std::vector<double> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = 2 * uniform({3, stream_id(what)}, i) - 1;
  return values;
}

// The results that enter the loss, with the weights of their elements.
struct Loss {
  const OpCase& one;
  std::vector<std::vector<double>> weights;

  Loss(const OpCase& tested, const std::vector<TensorType>& outputs) : one(tested) {
    const bool all = ops().at(one.op).differentiable == OpRecord::Results::kAll;
    for (size_t o = 0; o < (all ? outputs.size() : 1); ++o)
      weights.push_back(random_values(outputs[o].shape.elements(), "weight" + std::to_string(o)));
  }
  double operator()(const RefTensors& inputs) const {
    const RefTensors outputs = one.reference(inputs, one.attrs);
    double sum = 0;
    for (size_t o = 0; o < weights.size(); ++o) {
      for (size_t i = 0; i < weights[o].size(); ++i) sum += weights[o][i] * outputs[o].values[i];
    }
    return sum;
  }
};

std::vector<float> as_f32(const std::vector<double>& values) {
  return std::vector<float>(values.begin(), values.end());
}

void set(Executor& executor, const std::string& name, const RefTensor& value) {
  const auto upload = [&](auto zero) {
    const std::vector<decltype(zero)> typed(value.values.begin(), value.values.end());
    executor.set_input(0, name, typed.data(), typed.size() * sizeof zero);
  };
  switch (value.dtype) {
    case DType::f32:
      return upload(float{});
    case DType::i32:
      return upload(int32_t{});
    case DType::i64:
      return upload(int64_t{});
    case DType::u8:
      return upload(uint8_t{});
    default:
      FAIL() << "inputs in " << value.dtype << " are not made here";
  }
}

// Per input its gradient; empty where the record offers none.
std::vector<std::vector<float>> computed_gradients(const OpCase& one, const RefTensors& inputs,
                                                   const Loss& loss) {
  Builder b(ops(), "gradient");
  std::vector<ValueId> values, wanted;
  for (size_t i = 0; i < inputs.size(); ++i) {
    values.push_back(b.input("in" + std::to_string(i), {inputs[i].dtype, inputs[i].shape}));
    if (inputs[i].dtype == DType::f32) wanted.push_back(values.back());
  }
  const std::vector<ValueId> results = b.node(one.op, values, one.attrs);
  ValueId total = kNoValue;
  for (size_t o = 0; o < loss.weights.size(); ++o) {
    const ValueId weight = b.input("weight" + std::to_string(o), b.type(results[o]));
    std::vector<int64_t> dims;
    for (int d = 0; d < b.shape(weight).rank(); ++d) dims.push_back(d);
    const ValueId part = b.op("sum", {b.op("mul", {results[o], weight})}, {{"dims", dims}});
    total = total == kNoValue ? part : b.op("add", {total, part});
  }
  const ValueId seed = b.input("seed", {DType::f32, {}});
  const std::vector<ValueId> gradients = differentiate(b, total, seed, wanted).gradients;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (gradients[i] != kNoValue) b.output(b.graph().values[wanted[i]].name, gradients[i]);
  }

  const auto device = make_cpu_device(1);
  Executor executor(build_program({b.take()}, workspace_query(*device)), *device);
  for (size_t i = 0; i < inputs.size(); ++i) set(executor, "in" + std::to_string(i), inputs[i]);
  for (size_t o = 0; o < loss.weights.size(); ++o) {
    const std::vector<float> weight = as_f32(loss.weights[o]);
    executor.set_input(0, "weight" + std::to_string(o), weight.data(), weight.size() * sizeof(float));
  }
  const float unit = 1;
  executor.set_input(0, "seed", &unit, sizeof unit);
  executor.run(0);

  std::vector<std::vector<float>> result(inputs.size());
  for (const Output& output : executor.program().segments[0].graph.outputs) {
    std::vector<float>& gradient = result[std::stoi(output.name.substr(2))];
    gradient.resize(executor.program().segments[0].graph.type(output.value).shape.elements());
    executor.read_output(0, output.name, gradient.data(), gradient.size() * sizeof(float));
  }
  return result;
}

double difference_along(const Loss& loss, RefTensors inputs, size_t input,
                        const std::vector<double>& direction) {
  const std::vector<double> centre = inputs[input].values;
  const auto moved = [&](double step) {
    for (size_t i = 0; i < centre.size(); ++i) inputs[input].values[i] = centre[i] + step * direction[i];
    return loss(inputs);
  };
  return (moved(kStep) - moved(-kStep)) / (2 * kStep);
}

class GradientAgainstDifferences : public ::testing::TestWithParam<OpCase> {};

TEST_P(GradientAgainstDifferences, OfEveryInput) {
  const OpCase& one = GetParam();
  const RefTensors inputs = random_inputs(one, DType::f32, /*seed=*/4);
  const Loss loss(one, types_of(one.reference(inputs, one.attrs)));
  const std::vector<std::vector<float>> gradients = computed_gradients(one, inputs, loss);
  // Errors of f32 in the backward kernel, and of the differences: about 1e-16 · loss / kStep.
  const double tolerance = std::max(1e-4, 20 * one.tolerance);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype != DType::f32 || inputs[i].values.empty()) continue;
    const size_t size = inputs[i].values.size();
    std::vector<double> direction = random_values(size, "direction");
    if (gradients[i].empty()) {
      EXPECT_EQ(difference_along(loss, inputs, i, direction), 0)
          << "the record offers no gradient for input " << i << ", but the loss depends on it";
      continue;
    }
    ASSERT_EQ(gradients[i].size(), size);
    double along = 0, scale = 1e-6, largest = 1e-6;
    for (size_t k = 0; k < size; ++k) {
      along += gradients[i][k] * direction[k];
      scale += std::abs(gradients[i][k] * direction[k]);
      largest = std::max<double>(largest, std::abs(gradients[i][k]));
    }
    EXPECT_NEAR(along, difference_along(loss, inputs, i, direction), tolerance * scale)
        << "along a direction of input " << i;
    for (int n = 0; n < std::min<int>(kSingleElements, static_cast<int>(size)); ++n) {
      const size_t k = random_words({5, i}, n)[0] % size;
      std::fill(direction.begin(), direction.end(), 0);
      direction[k] = 1;
      EXPECT_NEAR(gradients[i][k], difference_along(loss, inputs, i, direction), tolerance * largest)
          << "element " << k << " of input " << i;
    }
  }
}

std::vector<OpCase> differentiable_cases() {
  std::vector<OpCase> cases = all_cases();
  std::erase_if(cases, [](const OpCase& one) {
    return one.finite_differences == Differentiable::kNo ||
           !std::holds_alternative<GradientRule>(ops().at(one.op).gradient);
  });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Ops, GradientAgainstDifferences, ::testing::ValuesIn(differentiable_cases()),
                         [](const auto& tested) { return case_name(tested.param); });

}  // namespace
}  // namespace trireme::testing
