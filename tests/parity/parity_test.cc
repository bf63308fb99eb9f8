// Ten steps of every recorded case against PyTorch: losses, gradient norms, final weights and running
// statistics and an evaluation with them, with one thread and with two, which must agree bit for bit.
//
// Bounds. Losses: 1e-5 of the loss (promised: 1e-4), after training 1e-4. Gradient norms: 1e-4. Weights: 1e-3
// of the largest magnitude in the tensor at each recorded element; of the tensor's norm; and, because a
// tensor that has hardly moved would pass the former two unchanged, 2 % of the distance it went in that
// distance itself; a tensor that PyTorch moved by rounding alone (the bias of BERT's keys, which a softmax
// does not see) must stay as near to its start here. PyTorch's own rounding (its f32 against its f64) is
// listed in README.md.
#include <gtest/gtest.h>

#include <cmath>

#include "golden.h"

namespace trireme::parity {
namespace {

constexpr double kLossBound = 1e-5, kEvaluationBound = 1e-4, kNormBound = 1e-4, kWeightBound = 1e-3,
                 kMovedBound = 0.02, kRoundingMoves = 1e-4;

double norm_of(const std::vector<float>& values) {
  double squares = 0;
  for (float value : values) squares += static_cast<double>(value) * value;
  return std::sqrt(squares);
}

struct Outcome {
  std::vector<StepResult> results;
  Evaluation evaluation;
  States states;
};

Outcome train_case(const Golden& golden, int threads) {
  const std::unique_ptr<Device> device = make_cpu_device(threads);
  Trainer trainer(golden.model, golden.train, golden.optim, golden.shape, *device);
  EXPECT_EQ(trainer.program().peak_bytes(), trainer.executor().allocated_bytes());
  start(trainer, golden);
  std::vector<StepResult> results = train(trainer, golden, 0, golden.steps());
  Evaluation evaluation;
  Batch batch = make_batch(golden, 0);
  trainer.evaluate(batch, evaluation);
  return {std::move(results), evaluation, read_states(trainer)};
}

// The largest difference seen; --gtest_output=xml writes it, for the table in README.md.
struct Worst {
  double value = 0;
  std::string where;
  void see(double difference, const std::string& name) {
    if (!(difference <= value)) value = difference, where = name;
  }
};

void expect_losses(const Golden& golden, const Outcome& outcome, Worst& worst) {
  for (int64_t step = 0; step < golden.steps(); ++step) {
    SCOPED_TRACE(testing::Message() << "step " << step);
    const StepResult& result = outcome.results[step];
    EXPECT_FALSE(result.skipped);
    EXPECT_NEAR(result.loss, golden.losses[step], kLossBound * golden.losses[step]);
    EXPECT_NEAR(result.norm, golden.norms[step], kNormBound * golden.norms[step]);
    worst.see(std::abs(result.loss / golden.losses[step] - 1), std::to_string(step));
  }
}

void expect_tensor(const Golden& golden, const std::string& name, std::vector<float> values, Worst& worst) {
  SCOPED_TRACE(name);
  const GoldenTensor& expected = golden.tensors.at(name);
  const size_t count = expected.samples.size();
  for (size_t i = 0; i < count; ++i) {
    const double value = values[i * values.size() / count],
                 difference = std::abs(value - expected.samples[i]);
    EXPECT_LE(difference, kWeightBound * expected.largest) << "element " << i * values.size() / count;
    worst.see(difference / expected.largest, name);
  }
  EXPECT_NEAR(norm_of(values), expected.norm, kWeightBound * expected.norm);
  const std::vector<float> from = starting_values(golden, name);
  for (size_t i = 0; i < values.size(); ++i) values[i] -= from[i];
  if (expected.moved < kRoundingMoves * expected.norm) {
    EXPECT_LT(norm_of(values), kRoundingMoves * expected.norm);
  } else {
    EXPECT_NEAR(norm_of(values), expected.moved, kMovedBound * expected.moved);
  }
}

class Parity : public testing::TestWithParam<std::string> {};

TEST_P(Parity, LossesAndWeightsArePyTorchs) {
  const Golden golden = read_golden(GetParam());
  const Outcome one = train_case(golden, 1), two = train_case(golden, 2);
  Worst loss, weight;
  expect_losses(golden, one, loss);
  for (const auto& [name, tensor] : golden.tensors) expect_tensor(golden, name, one.states.at(name), weight);
  EXPECT_NEAR(one.evaluation.loss, golden.evaluation.loss, kEvaluationBound * golden.evaluation.loss);
  EXPECT_EQ(one.evaluation.count, golden.evaluation.count);
  EXPECT_EQ(one.evaluation.correct, golden.evaluation.correct);
  RecordProperty("worst_loss", fmt::format("{:.1e} at step {}", loss.value, loss.where));
  RecordProperty("worst_weight", fmt::format("{:.1e} in {}", weight.value, weight.where));

  for (const auto& [name, values] : one.states)
    EXPECT_TRUE(values == two.states.at(name)) << name << " differs between one thread and two";
  for (int64_t step = 0; step < golden.steps(); ++step)
    EXPECT_EQ(one.results[step].loss, two.results[step].loss) << "step " << step;
}

INSTANTIATE_TEST_SUITE_P(Cases, Parity, testing::ValuesIn(golden_names()),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace trireme::parity
