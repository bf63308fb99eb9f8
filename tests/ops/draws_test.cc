// What chance rounds is right in the mean: over many steps the mean of what is decoded comes as near to what
// was encoded as its own standard error says; and draws of different streams are different ones.
#include <gtest/gtest.h>

#include <algorithm>
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

// Or levels of a bucket would add up to more than their codes have room for.
TEST(Draws, OfEliasCodesHaveANormThatIsNotBelowTheTrueOne) {
  constexpr int64_t kBuckets = 200;
  RefTensor x = RefTensor::zeros({16 * kBuckets});
  for (size_t i = 0; i < x.values.size(); ++i) x.values[i] = static_cast<double>(uniform({5, 6}, i)) - 0.5;
  const Attrs attrs{{"seed", int64_t{1}},    {"stream", int64_t{2}}, {"bits", int64_t{4}},
                    {"bucket", int64_t{16}}, {"elias", int64_t{1}},  {"size", 16 * kBuckets}};
  const TensorType codes{DType::u8, {kBuckets * elias_bytes(16, 7)}}, norms{DType::f32, {kBuckets}};
  const RefTensor found = run_kernel("quantise", attrs, {x, scalar(1)}, {codes, norms}, 1)[1];
  for (int64_t bucket = 0; bucket < kBuckets; ++bucket) {
    double squares = 0;
    for (int64_t i = 16 * bucket; i < 16 * (bucket + 1); ++i) squares += x.values[i] * x.values[i];
    EXPECT_GE(found.values[bucket], std::sqrt(squares)) << bucket;
    EXPECT_NEAR(found.values[bucket], std::sqrt(squares), 2e-7 * std::sqrt(squares)) << bucket;
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

// Where most of the large ones lie where a guess looks, it guesses too high and finds too few: then all are
// counted. It looks at 16 in a row out of every 64.
TEST(Sparse, TheLargestAreFoundAlsoWhereAGuessIsTooHigh) {
  constexpr int64_t kMany = 65536, kWanted = 30000;
  RefTensor x = RefTensor::zeros({kMany});
  for (int64_t i = 0; i < kMany; ++i)
    x.values[i] = static_cast<double>((i % 64 < 16 ? 100.0f : 1.0f) + uniform({7, 8}, i));
  std::vector<double> sorted = x.values;
  std::ranges::sort(sorted, std::greater<>());
  const TensorType values{DType::f32, {kWanted}}, indices{DType::i32, {kWanted}}, whole{DType::f32, {kMany}};
  for (const int threads : {1, 2}) {
    const RefTensors found = run_kernel("top_k", {{"k", kWanted}}, {x}, {values, indices, whole}, threads);
    double last = -1;
    for (int64_t i = 0; i < kWanted; ++i) {
      const double index = found[1].values[i];
      ASSERT_GT(index, last);
      last = index;
      ASSERT_EQ(found[0].values[i], x.values[static_cast<size_t>(index)]);
      ASSERT_GE(found[0].values[i], sorted[kWanted - 1]);
      ASSERT_EQ(found[2].values[static_cast<size_t>(index)], 0);
    }
    EXPECT_EQ(std::ranges::count(found[2].values, 0.0), kWanted);
  }
}

// Columns that differ by a ten-thousandth: what is left of them after one pass has lost four digits.
TEST(Orthogonalise, OfColumnsThatAreNearlyParallelIsOrthogonal) {
  constexpr int64_t kRows = 200, kColumns = 4;
  RefTensor x = RefTensor::zeros({kRows, kColumns});
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t j = 0; j < kColumns; ++j)
      x.at({i, j}) = static_cast<double>(
          static_cast<float>(uniform({9, 1}, i) + 1e-4f * uniform({9, 2}, i * kColumns + j)));
  }
  const RefTensor y = run_kernel("orthogonalise", {}, {x}, {{DType::f32, {kRows, kColumns}}}, 1)[0];
  for (int64_t a = 0; a < kColumns; ++a) {
    for (int64_t b = 0; b <= a; ++b) {
      double product = 0;
      for (int64_t i = 0; i < kRows; ++i) product += y.at({i, a}) * y.at({i, b});
      EXPECT_NEAR(product, a == b ? 1 : 0, 1e-6) << a << " and " << b;
    }
  }
}

}  // namespace
}  // namespace trireme::testing
