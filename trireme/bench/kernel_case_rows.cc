// Kernels that walk over memory: norms, activations, softmax, the loss and the optimizer's update.
#include <fmt/format.h>

#include <cmath>

#include "trireme/base/rng.h"
#include "trireme/bench/kernel_case.h"

namespace trireme::bench {
namespace {

constexpr double kEps = 1e-5;

struct Moments {
  double mean = 0, rstd = 0;
};

Moments moments(const float* x, int64_t count) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < count; ++i) sum += x[i];
  const double mean = sum / static_cast<double>(count);
  for (int64_t i = 0; i < count; ++i) squares += (x[i] - mean) * (x[i] - mean);
  return {mean, 1 / std::sqrt(squares / static_cast<double>(count) + kEps)};
}

std::vector<ExpectedElement> expected_layer_norm(const KernelRun& run) {
  const int64_t tokens = run.shape(0)[0], hidden = run.shape(0)[1];
  std::vector<ExpectedElement> expected;
  for (int64_t index : sample_indices(50, tokens * hidden)) {
    const float* x = run.in(0) + index / hidden * hidden;
    const int64_t column = index % hidden;
    const Moments m = moments(x, hidden);
    const double scaled = (x[column] - m.mean) * m.rstd * run.in(1)[column], bias = run.in(2)[column];
    expected.push_back({0, index, scaled + bias, 1 + std::abs(scaled) + std::abs(bias)});
  }
  return expected;
}

// Inputs: dy x gain mean rstd.
void prepare_layer_norm_grad(KernelRun& run, ThreadPool&) {
  const int64_t tokens = run.shape(1)[0], hidden = run.shape(1)[1];
  for (int64_t row = 0; row < tokens; ++row) {
    const Moments m = moments(run.in(1) + row * hidden, hidden);
    run.in(3)[row] = static_cast<float>(m.mean);
    run.in(4)[row] = static_cast<float>(m.rstd);
  }
}

std::vector<ExpectedElement> expected_layer_norm_grad(const KernelRun& run) {
  const int64_t tokens = run.shape(1)[0], hidden = run.shape(1)[1];
  const float *dy = run.in(0), *x = run.in(1), *gain = run.in(2);
  const auto normed = [&](int64_t row, int64_t i) {
    return (static_cast<double>(x[row * hidden + i]) - run.in(3)[row]) * run.in(4)[row];
  };
  std::vector<ExpectedElement> expected;
  for (int64_t index : sample_indices(50, tokens * hidden)) {
    const int64_t row = index / hidden, column = index % hidden;
    double mean = 0, along = 0;
    const auto pull = [&](int64_t i) { return static_cast<double>(dy[row * hidden + i]) * gain[i]; };
    for (int64_t i = 0; i < hidden; ++i) {
      mean += pull(i) / static_cast<double>(hidden);
      along += pull(i) * normed(row, i) / static_cast<double>(hidden);
    }
    const double rstd = run.in(4)[row], back = normed(row, column) * along;
    expected.push_back({0, index, rstd * (pull(column) - mean - back),
                        rstd * (1 + std::abs(pull(column)) + std::abs(mean) + std::abs(back))});
  }
  for (int64_t column : sample_indices(10, hidden)) {
    ExpectedElement dgain{1, column, 0, 0}, dbias{2, column, 0, 0};
    for (int64_t row = 0; row < tokens; ++row) {
      const double d = dy[row * hidden + column], term = d * normed(row, column);
      dgain.value += term;
      dgain.magnitude += std::abs(term);
      dbias.value += d;
      dbias.magnitude += std::abs(d);
    }
    expected.push_back(dgain);
    expected.push_back(dbias);
  }
  return expected;
}

std::vector<ExpectedElement> expected_gelu(const KernelRun& run) {
  std::vector<ExpectedElement> expected;
  for (int64_t index : sample_indices(100, run.inputs()[0].elements())) {
    const double x = run.in(0)[index];
    const double y = 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    expected.push_back({0, index, y, std::abs(x)});
  }
  return expected;
}

double log_sum_exp(const float* row, int64_t count) {
  double total = 0;
  for (int64_t i = 0; i < count; ++i) total += std::exp(static_cast<double>(row[i]));
  return std::log(total);
}

std::vector<ExpectedElement> expected_softmax(const KernelRun& run) {
  const int64_t width = run.shape(0).back();
  std::vector<ExpectedElement> expected;
  for (int64_t index : sample_indices(50, run.inputs()[0].elements())) {
    const double y = std::exp(run.in(0)[index] - log_sum_exp(run.in(0) + index / width * width, width));
    expected.push_back({0, index, y, y});
  }
  return expected;
}

// `input` of a run is the targets, the one before it the logits.
void set_targets(const KernelRun& run, int input) {
  const int64_t tokens = run.shape(input)[0], vocab = run.shape(input - 1)[1];
  int32_t* targets = run.inputs()[input].as<int32_t>();
  for (int64_t i = 0; i < tokens; ++i)
    targets[i] = static_cast<int32_t>(uniform_integer({1, stream_id("targets")}, i, vocab));
}

void prepare_cross_entropy(KernelRun& run, ThreadPool&) {
  set_targets(run, 1);
}

std::vector<ExpectedElement> expected_cross_entropy(const KernelRun& run) {
  const int64_t tokens = run.shape(0)[0], vocab = run.shape(0)[1];
  const int32_t* targets = run.inputs()[1].as<int32_t>();
  ExpectedElement loss{0, 0, 0, 0};
  for (int64_t row = 0; row < tokens; ++row) {
    const float* logits = run.in(0) + row * vocab;
    const double term = log_sum_exp(logits, vocab) - logits[targets[row]];
    loss.value += term;
    loss.magnitude += std::abs(term);
  }
  return {loss, {1, 0, static_cast<double>(tokens), 1}};
}

// Inputs: dloss logits targets lse.
void prepare_cross_entropy_grad(KernelRun& run, ThreadPool&) {
  const int64_t tokens = run.shape(1)[0], vocab = run.shape(1)[1];
  set_targets(run, 2);
  run.in(0)[0] = 1;
  for (int64_t row = 0; row < tokens; ++row)
    run.in(3)[row] = static_cast<float>(log_sum_exp(run.in(1) + row * vocab, vocab));
}

std::vector<ExpectedElement> expected_cross_entropy_grad(const KernelRun& run) {
  const int64_t tokens = run.shape(1)[0], vocab = run.shape(1)[1];
  std::vector<ExpectedElement> expected;
  for (int64_t index : sample_indices(50, tokens * vocab)) {
    const int64_t row = index / vocab;
    const double p = std::exp(static_cast<double>(run.in(1)[index]) - run.in(3)[row]);
    const bool hit = run.inputs()[2].as<int32_t>()[row] == index % vocab;
    expected.push_back({0, index, p - (hit ? 1 : 0), 1});
  }
  return expected;
}

// Inputs: w g m v lr scale step.
void prepare_adam(KernelRun& run, ThreadPool&) {
  for (int64_t i = 0; i < run.inputs()[3].elements(); ++i) run.in(3)[i] *= run.in(3)[i];
  run.in(4)[0] = 1e-3f;
  run.in(5)[0] = 0.5f;
  run.in(6)[0] = 10;
}

std::vector<ExpectedElement> expected_adam(const KernelRun& run) {
  const double beta1 = run.attrs().real("beta1"), beta2 = run.attrs().real("beta2"),
               eps = run.attrs().real("eps"), decay = run.attrs().real("weight_decay");
  const double lr = run.in(4)[0], scale = run.in(5)[0], step = run.in(6)[0];
  std::vector<ExpectedElement> expected;
  for (int64_t index : sample_indices(50, run.inputs()[0].elements())) {
    const double w = run.in(0)[index], g = run.in(1)[index] * scale;
    const double m = beta1 * run.in(2)[index] + (1 - beta1) * g,
                 v = beta2 * run.in(3)[index] + (1 - beta2) * g * g;
    const double direction =
        m / (1 - std::pow(beta1, step)) / (std::sqrt(v / (1 - std::pow(beta2, step))) + eps);
    expected.push_back({0, index, w - lr * (direction + decay * w), std::abs(w) + lr * std::abs(direction)});
    expected.push_back({1, index, m, std::abs(beta1 * run.in(2)[index]) + std::abs(g)});
    expected.push_back({2, index, v, v});
  }
  return expected;
}

TensorType f32(Shape shape) {
  return {DType::f32, shape};
}

}  // namespace

std::vector<KernelCase> row_kernel_cases(const ModelSizes& sizes) {
  const TensorType x = f32({sizes.tokens, sizes.hidden}), row = f32({sizes.hidden}),
                   stat = f32({sizes.tokens}), scalar = f32({}), logits = f32({sizes.predicted, sizes.vocab}),
                   lse = f32({sizes.predicted}), targets{DType::i32, {sizes.predicted}},
                   weight = f32({sizes.inner(), sizes.hidden});
  const std::string hidden = fmt::format("{}x{}", sizes.tokens, sizes.hidden),
                    vocab = fmt::format("{}x{}", sizes.predicted, sizes.vocab);
  return {
      {"layer_norm", hidden, {x, row, row}, {{"eps", kEps}}, expected_layer_norm},
      {"layer_norm_grad",
       hidden,
       {x, x, row, stat, stat},
       {},
       expected_layer_norm_grad,
       prepare_layer_norm_grad},
      {"gelu",
       fmt::format("{}x{}", sizes.tokens, sizes.inner()),
       {f32({sizes.tokens, sizes.inner()})},
       {},
       expected_gelu},
      {"softmax", vocab, {logits}, {}, expected_softmax},
      {"cross_entropy", vocab, {logits, targets}, {}, expected_cross_entropy, prepare_cross_entropy},
      {"cross_entropy_grad",
       vocab,
       {scalar, logits, targets, lse},
       {},
       expected_cross_entropy_grad,
       prepare_cross_entropy_grad},
      {"adam",
       fmt::format("{}x{}", sizes.inner(), sizes.hidden),
       {weight, weight, weight, weight, scalar, scalar, scalar},
       {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}},
       expected_adam,
       prepare_adam,
       Results::kOverInputs},
  };
}

}  // namespace trireme::bench
