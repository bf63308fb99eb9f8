// The largest eigenvalue against Hessians that can be written out: a matrix, a line fitted by least squares,
// and a small network whose Hessian is taken column by column.
#include "trireme/train/curvature.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/error_of.h"
#include "trireme/base/rng.h"
#include "trireme/train/loss_surface.h"

namespace trireme::curvature_test {
namespace {

using Matrix = std::vector<std::vector<double>>;

// By rotations that make one element off the diagonal zero after another (Jacobi), ascending.
std::vector<double> eigenvalues_of(Matrix a) {
  const size_t n = a.size();
  for (int sweep = 0; sweep < 60; ++sweep) {
    for (size_t p = 0; p < n; ++p) {
      for (size_t q = p + 1; q < n; ++q) {
        if (a[p][q] == 0) continue;
        const double angle = 0.5 * std::atan2(2 * a[p][q], a[q][q] - a[p][p]);
        const double c = std::cos(angle), s = std::sin(angle);
        for (size_t k = 0; k < n; ++k) {
          const double x = a[k][p], y = a[k][q];
          a[k][p] = c * x - s * y;
          a[k][q] = s * x + c * y;
        }
        for (size_t k = 0; k < n; ++k) {
          const double x = a[p][k], y = a[q][k];
          a[p][k] = c * x - s * y;
          a[q][k] = s * x + c * y;
        }
      }
    }
  }
  std::vector<double> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = a[i][i];
  std::ranges::sort(values);
  return values;
}

// Symmetric, of random numbers, with `lift` on the diagonal.
Matrix random_matrix(size_t n, double lift) {
  Matrix a(n, std::vector<double>(n));
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k <= i; ++k) a[i][k] = a[k][i] = normal({3, 1}, i * n + k) + (i == k ? lift : 0);
  }
  return a;
}

// Of wᵀAw/2 + c Σw³/6, rounded as a device's would be.
GradientAt gradient_of(const Matrix& a, double cubic = 0) {
  return [&a, cubic](std::span<const float> w) {
    std::vector<double> result(w.size());
    for (size_t i = 0; i < w.size(); ++i) {
      for (size_t k = 0; k < w.size(); ++k) result[i] += a[i][k] * w[k];
      result[i] = static_cast<float>(result[i] + cubic * w[i] * w[i] / 2);
    }
    return result;
  };
}

std::vector<float> some_weights(size_t n) {
  std::vector<float> result(n);
  for (size_t i = 0; i < n; ++i) result[i] = normal({5, 1}, i);
  return result;
}

TEST(Curvature, OfAQuadraticIsTheLargestEigenvalueOfItsMatrix) {
  constexpr size_t kSize = 24;
  const Matrix a = random_matrix(kSize, 12);
  const Curvature found = largest_curvature(gradient_of(a), some_weights(kSize), {.tolerance = 1e-6});
  EXPECT_TRUE(found.converged);
  EXPECT_FALSE(found.most_negative);
  EXPECT_NEAR(found.eigenvalue, eigenvalues_of(a).back(), 1e-4 * found.eigenvalue);
  EXPECT_LT(found.residual, 0.02);
  EXPECT_EQ(found.iterations.back(), found.eigenvalue);
  double squares = 0;
  for (const double x : found.direction) squares += x * x;
  EXPECT_NEAR(squares, 1, 1e-9);
}

// The Hessian of the cubic part is c·w on the diagonal, whatever the step; with too large or too small a step
// rounding shows.
TEST(Curvature, StepIsMeasuredSoThatThirdDerivativesAndRoundingAreSmall) {
  constexpr size_t kSize = 12;
  Matrix a = random_matrix(kSize, 8);
  const double cubic = 2;
  const std::vector<float> w = some_weights(kSize);
  const Curvature found = largest_curvature(gradient_of(a, cubic), w, {.tolerance = 1e-6});
  Matrix hessian = a;
  for (size_t i = 0; i < kSize; ++i) hessian[i][i] += cubic * w[i];
  const double expected = eigenvalues_of(hessian).back();
  EXPECT_NEAR(found.eigenvalue, expected, 1e-4 * expected);
  EXPECT_LT(found.step_error, 1e-4);
  EXPECT_GT(found.step, 0);
  const Curvature tiny = largest_curvature(gradient_of(a, cubic), w, {.most_iterations = 30, .step = 1e-6});
  EXPECT_GT(std::abs(tiny.eigenvalue - expected), 1e-3 * expected);
  EXPECT_EQ(tiny.step, 1e-6);
}

TEST(Curvature, OfASaddleIsTheLargestAndNotTheOneOfTheLargestMagnitude) {
  const Matrix a = {{-10, 0, 0}, {0, 3, 0}, {0, 0, 1}};
  const Curvature found = largest_curvature(gradient_of(a), some_weights(3), {.tolerance = 1e-7});
  EXPECT_NEAR(found.eigenvalue, 3, 1e-3);
  EXPECT_NEAR(found.most_negative.value(), -10, 1e-3);
}

// Eigenvalues of one size on both sides of zero do not have the direction alternate.
TEST(Curvature, OfAPairOfOppositesIsTheOneAboveZero) {
  const Matrix a = {{-3, 0, 0}, {0, 3, 0}, {0, 0, 1}};
  const Curvature found = largest_curvature(gradient_of(a), some_weights(3), {.tolerance = 1e-6});
  EXPECT_TRUE(found.converged);
  EXPECT_NEAR(found.eigenvalue, 3, 1e-3);
  EXPECT_LT(found.residual, 0.05);
}

TEST(Curvature, OfAFlatLossIsZero) {
  const Matrix a(4, std::vector<double>(4));
  const Curvature found = largest_curvature(gradient_of(a), std::vector<float>(4));
  EXPECT_TRUE(found.converged);
  EXPECT_EQ(found.eigenvalue, 0);
}

TEST(Curvature, StopsAndSaysSoWhenIterationsAreUsedUp) {
  const Matrix a = {{5, 0}, {0, 4.99}};
  int calls = 0;
  const Curvature found = largest_curvature(
      gradient_of(a), some_weights(2),
      {.most_iterations = 2, .tolerance = 1e-9, .on_iteration = [&](int, double) { ++calls; }});
  EXPECT_FALSE(found.converged);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(found.iterations.size(), 2u);
}

TEST(Curvature, RefusesWhatHasNone) {
  const auto broken = [](std::span<const float> w) { return std::vector<double>(w.size(), std::nan("")); };
  EXPECT_THAT(error_of([&] { largest_curvature(broken, some_weights(2)); }),
              testing::HasSubstr("not finite"));
  EXPECT_THAT(error_of([&] { largest_curvature(broken, {}); }), testing::HasSubstr("no weights"));
  EXPECT_THAT(error_of([&] { largest_curvature(broken, some_weights(2), {.tolerance = 0}); }),
              testing::HasSubstr("tolerance"));
}

constexpr int64_t kRows = 8, kFeatures = 3;

// y = x·a + b by squared error; or, with a hidden layer, classes.
ModelRecord fitted_line() {
  ModelRecord model{.family = "line", .inputs = {{"x", DType::f32, {kFeatures}}, {"y", DType::f32, {1}}}};
  model.loss = [](Network& net, const ModelOptions&, std::span<const ValueId> inputs) {
    return net.squared_error(
        net.linear(inputs[0], "line", 1, Network::Store::kInOut, Init::normal(0.5), Bias::kZeros), inputs[1]);
  };
  return model;
}

ModelRecord small_classifier() {
  ModelRecord model{.family = "classes",
                    .inputs = {{"x", DType::f32, {kFeatures}}, {"kind", DType::i32, {}}}};
  model.logits = [](Network& net, const ModelOptions&, ValueId x) {
    const ValueId hidden =
        net.linear(x, "hidden", 4, Network::Store::kInOut, Init::normal(0.7), Bias::kZeros);
    return net.linear(net.op("tanh", {hidden}), "out", 3, Network::Store::kInOut, Init::normal(0.7),
                      Bias::kZeros);
  };
  return model;
}

Batch points_of(const ModelRecord& model, uint64_t number) {
  Batch batch;
  batch.rows = kRows;
  for (const SampleTensor& tensor : model.inputs) {
    Shape shape{kRows};
    for (const int64_t extent : tensor.row) shape.push_back(extent);
    batch.tensors.emplace_back(tensor.name, HostTensor()).second.reset(tensor.dtype, shape);
  }
  for (int64_t row = 0; row < kRows; ++row) {
    const std::span<float> x = batch.at("x").row<float>(row);
    for (size_t k = 0; k < x.size(); ++k)
      x[k] = normal({number, 2}, static_cast<uint64_t>(row) * x.size() + k);
    if (model.loss)
      batch.at("y").row<float>(row)[0] = x[0] - 2 * x[1];
    else
      batch.at("kind").values<int32_t>()[static_cast<size_t>(row)] =
          (x[0] > 0 ? 1 : 0) + (x[1] > x[2] ? 1 : 0);
  }
  return batch;
}

class CurvatureOfModels : public testing::Test {
 protected:
  void make(const ModelRecord& model) {
    batches_.clear();
    for (uint64_t i = 0; i < 2; ++i) batches_.push_back(points_of(model, i));
    trainer_ = std::make_unique<Trainer>(model, TrainOptions{.clip_norm = 0}, OptimOptions{.kind = "sgd"},
                                         StepShape{.rows = kRows}, *device_);
    trainer_->initialise(1);
    surface_ = std::make_unique<LossSurface>(*trainer_, batches_);
  }
  Curvature find(const std::vector<float>& weights, double tolerance) {
    const GradientAt gradient = [&](std::span<const float> w) { return surface_->slope(w).gradient; };
    return largest_curvature(gradient, weights, {.most_iterations = 2000, .tolerance = tolerance});
  }

  std::unique_ptr<Device> device_ = make_cpu_device(1);
  std::vector<Batch> batches_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<LossSurface> surface_;
};

TEST_F(CurvatureOfModels, LeastSquaresHaveTheMomentsOfTheirInputs) {
  make(fitted_line());
  // The mean over targets of (x·a + b − y)² has the Hessian 2 E[zzᵀ] with z = (x, 1).
  Matrix moments(kFeatures + 1, std::vector<double>(kFeatures + 1));
  for (Batch& batch : batches_) {
    for (int64_t row = 0; row < kRows; ++row) {
      std::vector<double> z(batch.at("x").row<float>(row).begin(), batch.at("x").row<float>(row).end());
      z.push_back(1);
      for (size_t i = 0; i < z.size(); ++i) {
        for (size_t k = 0; k < z.size(); ++k) moments[i][k] += 2 * z[i] * z[k] / (2.0 * kRows);
      }
    }
  }
  const double expected = eigenvalues_of(moments).back();
  EXPECT_NEAR(find(surface_->weights(), 1e-6).eigenvalue, expected, 1e-4 * expected);
}

TEST_F(CurvatureOfModels, ANetworkHasTheLargestEigenvalueOfItsHessian) {
  make(small_classifier());
  const std::vector<float> w = surface_->weights();
  const size_t n = w.size();
  ASSERT_EQ(n, size_t{3 * 4 + 4 + 4 * 3 + 3});
  Matrix hessian(n, std::vector<double>(n));
  constexpr float kStep = 0.01f;
  for (size_t k = 0; k < n; ++k) {
    std::vector<float> above = w, below = w;
    above[k] += kStep;
    below[k] -= kStep;
    const std::vector<double> up = surface_->slope(above).gradient, down = surface_->slope(below).gradient;
    for (size_t i = 0; i < n; ++i) {
      const double element = (up[i] - down[i]) / (static_cast<double>(above[k]) - below[k]);
      hessian[i][k] += element / 2;
      hessian[k][i] += element / 2;
    }
  }
  const double expected = eigenvalues_of(hessian).back();
  EXPECT_GT(expected, 0.1);
  const Curvature found = find(w, 1e-4);
  EXPECT_TRUE(found.converged);
  EXPECT_NEAR(found.eigenvalue, expected, 3e-4 * expected);
}

TEST_F(CurvatureOfModels, TheSlopeIsTheMeanOverAllBatches) {
  make(small_classifier());
  const std::vector<float> w = surface_->weights();
  const LossSurface::Slope both = surface_->slope(w);
  std::vector<double> sum(w.size());
  double loss = 0;
  for (Batch& batch : batches_) {
    LossSurface one(*trainer_, {&batch, 1});
    const LossSurface::Slope slope = one.slope(w);
    loss += slope.loss / 2;
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += slope.gradient[i] / 2;
  }
  EXPECT_NEAR(both.loss, loss, 1e-6);
  for (size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(both.gradient[i], sum[i], 1e-7);
}

TEST_F(CurvatureOfModels, TheLineFromAModelToItselfIsFlatAndThatToAnotherIsNot) {
  make(small_classifier());
  const ModelStates first = surface_->states();
  const Evaluation here = surface_->evaluate(batches_);
  for (const double a : {-0.5, 0.3, 1.5}) {
    surface_->set_between(first, first, a);
    EXPECT_EQ(surface_->evaluate(batches_).loss, here.loss) << a;
  }
  trainer_->initialise(2);
  const ModelStates second = surface_->states();
  const Evaluation there = surface_->evaluate(batches_);
  surface_->set_between(first, second, 0);
  EXPECT_EQ(surface_->evaluate(batches_).loss, here.loss);
  surface_->set_between(first, second, 1);
  EXPECT_EQ(surface_->evaluate(batches_).loss, there.loss);
  EXPECT_NE(here.loss, there.loss);
  surface_->set_between(first, second, 0.25);
  const std::vector<float> between = surface_->weights();
  EXPECT_FLOAT_EQ(between[0], 0.75f * first[0].second[0] + 0.25f * second[0].second[0]);
}

// With statistics estimated on one batch, evaluation normalises that batch nearly as training does: by a
// variance over n − 1 elements, not n. With the statistics that a model starts with it does not.
TEST(LossSurface, EstimatesRunningStatisticsAgain) {
  ModelOptions model;
  model.family = "resnet";
  model.layers = 8;
  model.classes = 10;
  constexpr int64_t kImages = 6;
  const Shape sample{3, 8, 8};
  const std::unique_ptr<Device> device = make_cpu_device(1);
  Trainer trainer(model, {}, {.kind = "sgd"}, {kImages, sample}, *device);
  trainer.initialise(1);
  std::vector<Batch> batches(2);
  for (size_t b = 0; b < batches.size(); ++b) {
    HostTensor pixels, labels;
    pixels.reset(DType::f32, {kImages, 3, 8, 8});
    labels.reset(DType::i32, {kImages});
    for (size_t i = 0; i < pixels.values<float>().size(); ++i)
      pixels.values<float>()[i] = 2 + 3 * normal({7, b}, i);
    for (int32_t row = 0; row < kImages; ++row) labels.values<int32_t>()[static_cast<size_t>(row)] = row;
    batches[b].tensors = {{"images", pixels}, {"labels", labels}};
    batches[b].rows = kImages;
  }
  LossSurface surface(trainer, std::span(batches).first(1));
  const ModelStates states = surface.states();
  const double wanted = surface.slope(surface.weights()).loss;
  const double before = surface.evaluate(std::span(batches).first(1)).loss;
  surface.set_between(states, states, 0);
  const double after = surface.evaluate(std::span(batches).first(1)).loss;
  EXPECT_NEAR(after, wanted, 0.02 * wanted);
  EXPECT_GT(std::abs(before - wanted), 0.1 * wanted);

  // Of two batches: the mean of both.
  const auto mean_of_first = [&](std::span<Batch> of) {
    LossSurface some(trainer, of);
    some.set_between(states, states, 0);
    for (const auto& [name, values] : some.states()) {
      if (name.ends_with("running_mean")) return static_cast<double>(values[0]);
    }
    return 0.0;
  };
  const std::span<Batch> all(batches);
  const double both = mean_of_first(all), one = mean_of_first(all.first(1)),
               other = mean_of_first(all.last(1));
  EXPECT_NEAR(both, (one + other) / 2, 1e-5);
  EXPECT_NE(one, other);
}

}  // namespace
}  // namespace trireme::curvature_test
