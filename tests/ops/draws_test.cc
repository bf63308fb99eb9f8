// What chance rounds is right in the mean: over many steps the mean of what is decoded comes as near to what
// was encoded as its own standard error says; and draws of different streams are different ones.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/ops/case_runner.h"
#include "trireme/base/rng.h"

namespace trireme::testing {
namespace {

constexpr int64_t kElements = 37, kDraws = 4000;

RefTensor scalar(double value) {
  return {DType::f32, {}, {value}};
}

RefTensor gradient() {
  RefTensor x = RefTensor::zeros({kElements});
  for (int64_t i = 0; i < kElements; ++i) x.values[i] = static_cast<double>(uniform({3, 4}, i)) - 0.5;
  x.values[5] = 0;
  return x;
}

void expect_right_in_the_mean(const std::function<RefTensor(const RefTensor& x, double step)>& through) {
  const RefTensor x = gradient();
  std::vector<double> sums(kElements), squares(kElements);
  for (int64_t draw = 1; draw <= kDraws; ++draw) {
    const RefTensor y = through(x, static_cast<double>(draw));
    for (int64_t i = 0; i < kElements; ++i) {
      sums[i] += y.values[i];
      squares[i] += y.values[i] * y.values[i];
    }
  }
  for (int64_t i = 0; i < kElements; ++i) {
    const double mean = sums[i] / kDraws, variance = squares[i] / kDraws - mean * mean;
    const double error = std::sqrt(std::max(0.0, variance) / kDraws);
    EXPECT_NEAR(mean, x.values[i], 4.5 * error + 1e-6) << "element " << i;
  }
}

RefTensor as_row(RefTensor tensor) {
  tensor.shape = {1, tensor.shape[0]};
  return tensor;
}

TEST(Draws, OfTernaryCodesAreRightInTheMean) {
  const Attrs attrs{{"seed", int64_t{1}}, {"stream", int64_t{2}}}, size{{"size", kElements}};
  const TensorType codes{DType::u8, {(kElements + 3) / 4}}, whole{DType::f32, {kElements}};
  expect_right_in_the_mean([&](const RefTensor& x, double step) {
    const RefTensor packed = run_kernel("ternary_pack", attrs, {x, scalar(0.5), scalar(step)}, {codes}, 1)[0];
    return run_kernel("ternary_unpack", size, {as_row(packed), scalar(0.5)}, {whole}, 1)[0];
  });
}

TEST(Draws, OfLevelsAreRightInTheMean) {
  for (const int64_t bits : {2, 4}) {
    const Attrs attrs{{"seed", int64_t{1}}, {"stream", int64_t{2}}, {"bits", bits}, {"bucket", int64_t{16}}};
    const Attrs size{{"size", kElements}, {"bits", bits}, {"bucket", int64_t{16}}};
    const TensorType codes{DType::u8, {3 * 2 * bits}}, norms{DType::f32, {3}}, whole{DType::f32, {kElements}};
    expect_right_in_the_mean([&](const RefTensor& x, double step) {
      const RefTensors packed = run_kernel("quantise", attrs, {x, scalar(step)}, {codes, norms}, 1);
      return run_kernel("dequantise", size, {as_row(packed[0]), as_row(packed[1])}, {whole}, 1)[0];
    });
  }
}

// Of a matrix of all elements but the last, which is left as it is.
TEST(Draws, OfSingularPartsAreRightInTheMean) {
  for (const Shape& shape : {Shape{4, kElements / 4}, Shape{kElements / 4, 4}}) {
    const TensorType left{DType::f32, {2, shape[0]}}, right{DType::f32, {2, shape[1]}};
    const Attrs attrs{{"seed", int64_t{1}}, {"stream", int64_t{2}}, {"count", int64_t{2}}};
    expect_right_in_the_mean([&](const RefTensor& x, double step) {
      RefTensor matrix = RefTensor::zeros(shape), sum = x;
      std::copy_n(x.values.begin(), shape.elements(), matrix.values.begin());
      std::fill_n(sum.values.begin(), shape.elements(), 0.0);
      const RefTensors parts = run_kernel("svd_sample", attrs, {matrix, scalar(step)}, {left, right}, 1);
      for (int64_t k = 0; k < 2; ++k) {
        for (int64_t i = 0; i < shape[0]; ++i) {
          for (int64_t j = 0; j < shape[1]; ++j)
            sum.values[i * shape[1] + j] += parts[0].at({k, i}) * parts[1].at({k, j});
        }
      }
      return sum;
    });
  }
}

TEST(Draws, DifferByStreamAndStep) {
  const TensorType codes{DType::u8, {(kElements + 3) / 4}};
  const auto drawn = [&](int64_t stream, double step) {
    const Attrs attrs{{"seed", int64_t{1}}, {"stream", stream}};
    return run_kernel("ternary_pack", attrs, {gradient(), scalar(0.5), scalar(step)}, {codes}, 1)[0].values;
  };
  EXPECT_EQ(drawn(2, 1), drawn(2, 1));
  EXPECT_NE(drawn(2, 1), drawn(3, 1));
  EXPECT_NE(drawn(2, 1), drawn(2, 2));
}

// In every round as many, and each number about as often as any other.
TEST(Draws, OfSomeNumbersAreAsManyAndEven) {
  constexpr int64_t kCount = 3, kOf = 7, kRounds = 700;
  std::vector<int> times(kOf);
  for (int64_t round = 0; round < kRounds; ++round) {
    double drawn = 0;
    for (int64_t which = 0; which < kOf; ++which) {
      const Attrs attrs{
          {"count", kCount}, {"of", kOf}, {"which", which}, {"seed", int64_t{1}}, {"stream", int64_t{2}}};
      const double one =
          run_kernel("drawn", attrs, {scalar(static_cast<double>(round))}, {{DType::f32, {}}}, 1)[0]
              .values[0];
      drawn += one;
      times[which] += one > 0;
    }
    ASSERT_EQ(drawn, kCount);
  }
  // 300 times each, with a standard deviation of 13.
  for (const int of_number : times) EXPECT_NEAR(of_number, kCount * kRounds / kOf, 60);
}

// Rows of indices that ascend, as top_k leaves them.
TEST(Sparse, WhatWasTakenOutGoesBackToItsPlace) {
  const RefTensor x = gradient();
  const TensorType values{DType::f32, {9}}, indices{DType::i32, {9}}, whole{DType::f32, {kElements}};
  const RefTensors kept = run_kernel("top_k", {{"k", int64_t{9}}}, {x}, {values, indices, whole}, 2);
  const RefTensor back =
      run_kernel("scatter_add", {{"size", kElements}}, {as_row(kept[0]), as_row(kept[1])}, {whole}, 2)[0];
  const RefTensor cleared = run_kernel("clear_at", {}, {x, kept[1]}, {whole}, 2)[0];
  for (int64_t i = 0; i < kElements; ++i) {
    EXPECT_EQ(back.values[i] + kept[2].values[i], x.values[i]);
    EXPECT_EQ(cleared.values[i], kept[2].values[i]);
  }
}

}  // namespace
}  // namespace trireme::testing
