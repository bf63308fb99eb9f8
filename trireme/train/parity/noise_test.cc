// What counts as a sum, and how far values are moved.
#include "trireme/train/parity/noise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "trireme/ir/builder.h"
#include "trireme/ops/table.h"
#include "trireme/train/parity/row_groups.h"

namespace trireme::parity {
namespace {

// y = relu(a·b), s = Σy².
Program product() {
  Builder b(ops(), "first");
  const ValueId a = b.input("a", {DType::f32, {4, 100}}), c = b.input("b", {DType::f32, {100, 8}});
  const ValueId y = b.op("matmul", {a, c});
  b.output("y", b.op("relu", {y}));
  b.output("s", b.op("sum_squares", {y}));
  return build_program({b.take()}, kNoWorkspace);
}

TEST(RoundingNoise, CountsTheTermsOfSums) {
  const RoundingNoise noise(product());
  EXPECT_EQ(noise.terms(0, 0, 0), 100);  // k
  EXPECT_EQ(noise.terms(0, 1, 0), 1);
  EXPECT_EQ(noise.terms(0, 2, 0), 32);
}

// The largest move of 32 numbers, relative to their rms.
template <typename T>
double largest_move(int node) {
  const RoundingNoise noise(product());
  std::vector<T> values;
  for (int i = 0; i < 32; ++i) values.push_back(T(i % 2 == 0 ? 1.0f : -1.0f));
  const TensorView view{values.data(), dtype_of<T>, {4, 8}};
  noise.sample(1)(0, node, 0, view);
  double largest = 0;
  for (int i = 0; i < 32; ++i)
    largest = std::max(largest,
                       std::abs(static_cast<double>(static_cast<float>(values[i])) - (i % 2 == 0 ? 1 : -1)));
  return largest;
}

TEST(RoundingNoise, MovesByUnitsInTheLastPlace) {
  EXPECT_GT(largest_move<float>(1), 0.5 * 0x1p-23);
  EXPECT_LE(largest_move<float>(1), 0x1p-23);
  // Ten times as far for a hundred terms.
  EXPECT_GT(largest_move<float>(0), 5 * 0x1p-23);
  EXPECT_LE(largest_move<float>(0), 12 * 0x1p-23);
  EXPECT_EQ(largest_move<Bf16>(1), 0x1p-7);
}

// The smallest numbers of f16 are 2^-24 apart, which is more than a unit in the last place.
TEST(RoundingNoise, MovesTheSmallestNumbersOfF16) {
  const RoundingNoise noise(product());
  std::vector<F16> values(32, F16(3 * 0x1p-24f));
  noise.sample(1)(0, 1, 0, {values.data(), DType::f16, {4, 8}});
  EXPECT_TRUE(
      std::ranges::any_of(values, [](F16 value) { return static_cast<float>(value) == 2 * 0x1p-24f; }));
  EXPECT_TRUE(
      std::ranges::any_of(values, [](F16 value) { return static_cast<float>(value) == 4 * 0x1p-24f; }));
}

// A row of large numbers does not move one of small ones.
TEST(RoundingNoise, MovesRowsByTheirOwnSize) {
  Builder b(ops(), "first");
  const ValueId a = b.input("a", {DType::f32, {2, 100}}), c = b.input("b", {DType::f32, {100, 32}});
  b.output("y", b.op("matmul", {a, c}));
  const RoundingNoise noise(build_program({b.take()}, kNoWorkspace));
  std::vector<float> values(64, 1.0f);
  for (int i = 0; i < 32; ++i) values[i] = 1e6f;
  noise.sample(1)(0, 0, 0, {values.data(), DType::f32, {2, 32}});
  double large = 0, small = 0;
  for (int i = 0; i < 32; ++i) {
    large = std::max(large, std::abs(static_cast<double>(values[i]) - 1e6));
    small = std::max(small, std::abs(static_cast<double>(values[32 + i]) - 1));
  }
  EXPECT_GT(large, 0.1);
  EXPECT_LT(small, 12 * 0x1p-23);
  EXPECT_GT(small, 0);
}

TEST(RowGroups, AreRowsOrSeveralShortOnes) {
  const auto groups = [](const Shape& shape) {
    std::vector<std::pair<int64_t, int64_t>> result;
    for_each_row_group(shape, [&](int64_t begin, int64_t end) { result.emplace_back(begin, end); });
    return result;
  };
  using Groups = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(groups({2, 20}), (Groups{{0, 20}, {20, 40}}));
  EXPECT_EQ(groups({5, 6}), (Groups{{0, 30}}));  // three rows and two left over
  EXPECT_EQ(groups({6, 6}), (Groups{{0, 18}, {18, 36}}));
  EXPECT_EQ(groups({33}), (Groups{{0, 16}, {16, 33}}));
  EXPECT_EQ(groups({}), (Groups{{0, 1}}));
}

TEST(RoundingNoise, LeavesZerosAlone) {
  const RoundingNoise noise(product());
  std::vector<float> values(32, 0.0f);
  values[5] = 1;
  noise.sample(1)(0, 0, 0, {values.data(), DType::f32, {4, 8}});
  EXPECT_EQ(values[4], 0);
  EXPECT_NE(values[5], 1);
}

TEST(RoundingNoise, SamplesDiffer) {
  const RoundingNoise noise(product());
  std::vector<float> a(32, 1.0f), b(32, 1.0f), c(32, 1.0f);
  const auto one = noise.sample(1);
  const auto move = [](const auto& observer, std::vector<float>& values) {
    observer(0, 0, 0, TensorView{values.data(), DType::f32, {4, 8}});
  };
  move(one, a);
  move(one, b);  // the next microbatch
  move(noise.sample(2), c);
  EXPECT_NE(a, b);
  EXPECT_NE(a, c);
}

}  // namespace
}  // namespace trireme::parity
