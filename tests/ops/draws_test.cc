// What chance rounds is right in the mean: over many steps the mean of what is decoded comes as near to what
// was encoded as its own standard error says; and draws of different streams are different ones.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/ops/case_runner.h"
#include "trireme/base/rng.h"
#include "trireme/ops/code_lengths.h"

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

// Elements as levels of buckets of 16, and back.
RefTensor through_levels(const RefTensor& x, int64_t bits, int64_t elias, double step) {
  const int64_t n = x.shape[0], buckets = (n + 15) / 16;
  const Attrs attrs{{"seed", int64_t{1}},    {"stream", int64_t{2}}, {"bits", bits},
                    {"bucket", int64_t{16}}, {"elias", elias},       {"size", n}};
  const int64_t bytes = elias ? elias_bytes(16, (1 << (bits - 1)) - 1) : 2 * bits;
  const TensorType codes{DType::u8, {buckets * bytes}}, norms{DType::f32, {buckets}}, whole{DType::f32, {n}};
  const RefTensors packed = run_kernel("quantise", attrs, {x, scalar(step)}, {codes, norms}, 1);
  return run_kernel("dequantise", attrs, {as_row(packed[0]), as_row(packed[1])}, {whole}, 1)[0];
}

TEST(Draws, OfLevelsAreRightInTheMean) {
  for (const int64_t bits : {2, 4}) {
    for (const int64_t elias : {0, 1})
      expect_right_in_the_mean(
          [&](const RefTensor& x, double step) { return through_levels(x, bits, elias, step); });
  }
}

// Codes of any levels fit into the bytes that there are: the kernel checks it. Where all are equal they are
// the longest; where all are tiny, norms have few digits.
TEST(Draws, OfLevelsHaveRoomForTheLongestCodes) {
  for (const int64_t bits : {2, 3, 4, 8}) {
    for (const double size : {1.0, 3e38, 1e-38, 1.4e-45}) {
      for (const int64_t equal : {1, 4, 15, 16, 37}) {
        RefTensor x = RefTensor::zeros({kElements});
        for (int64_t i = 0; i < equal; ++i) x.values[i] = i % 2 ? -size / 4 : size / 4;
        if (size < 1e-40) {
          for (int64_t i = 0; i < equal; ++i)
            x.values[i] = static_cast<double>(std::numeric_limits<float>::denorm_min());
        }
        for (double step = 1; step <= 20; ++step) {
          const RefTensor y = through_levels(x, bits, 1, step);
          for (int64_t i = 0; i < kElements; ++i)
            ASSERT_LE(std::abs(y.values[i]), 8 * std::abs(x.values[i])) << bits << " bits of " << size;
        }
      }
    }
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

// Of every pattern that is hard to say shortly: all, none in the middle, all at either end.
TEST(Sparse, IndicesComeBackOfTheirCodes) {
  for (const int64_t size : {1, 2, 31, 1000, 5000}) {
    for (const int64_t count : {int64_t{1}, size / 9 + 1, size}) {
      for (const int pattern : {0, 1, 2, 3}) {
        RefTensor indices = RefTensor::zeros({count}, DType::i32);
        for (int64_t i = 0; i < count; ++i) {
          const int64_t end = size - count + i;
          indices.values[i] = static_cast<double>(pattern == 0   ? i
                                                  : pattern == 1 ? end
                                                  : pattern == 2 ? (2 * i < count ? i : end)
                                                                 : i * size / count);
        }
        for (const int64_t low_bits : {rice_low_bits(count, size), int64_t{0}, int64_t{30}}) {
          const Attrs attrs{{"size", size}, {"low_bits", low_bits}, {"count", count}};
          const TensorType codes{DType::u8, {rice_bytes(count, size, low_bits)}};
          const RefTensor packed = run_kernel("rice_pack", attrs, {indices}, {codes}, 1)[0];
          const RefTensor back =
              run_kernel("rice_unpack", attrs, {as_row(packed)}, {{DType::i32, {1, count}}}, 1)[0];
          ASSERT_EQ(back.values, indices.values) << count << " of " << size << ", " << low_bits;
        }
      }
    }
  }
  // Of a thousandth: 12 bits an index instead of 32.
  EXPECT_EQ(rice_low_bits(1000, 1000000), 9);
  EXPECT_LE(8 * rice_bytes(1000, 1000000, 9), 12 * 1000);
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
