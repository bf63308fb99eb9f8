// The vectorised conversions give the same bits as the scalar ones, at every length and for every kind
// of value: all 16-bit patterns, ties, subnormals, infinities and NaN.
#include "trireme/kernels/cpu/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace trireme::cpu {
namespace {

// Every 16-bit pattern in the upper half of a float, with low halves at and around the tie.
std::vector<float> awkward_floats() {
  std::vector<float> values;
  for (uint32_t high = 0; high < 0x10000; ++high) {
    for (uint32_t low : {0x0u, 0x1u, 0x1000u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      values.push_back(std::bit_cast<float>(high << 16 | low));
    }
  }
  return values;
}

template <typename T>
class Convert : public ::testing::Test {};
using Formats = ::testing::Types<Bf16, F16>;
TYPED_TEST_SUITE(Convert, Formats);

TYPED_TEST(Convert, widens_every_pattern) {
  std::vector<TypeParam> from(0x10000);
  for (size_t i = 0; i < from.size(); ++i) from[i].bits = static_cast<uint16_t>(i);
  std::vector<float> to(from.size());
  widen({from.data(), dtype_of<TypeParam>, Shape{0x10000}}, 0, 0x10000, to.data());
  for (size_t i = 0; i < from.size(); ++i) {
    const float expected = static_cast<float>(from[i]);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(to[i])) << i;
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(to[i]), std::bit_cast<uint32_t>(expected)) << i;
    }
  }
}

TYPED_TEST(Convert, narrows_to_nearest_even) {
  const std::vector<float> from = awkward_floats();
  std::vector<TypeParam> to(from.size());
  const TensorView view{to.data(), dtype_of<TypeParam>, Shape{static_cast<int64_t>(to.size())}};
  narrow(from.data(), static_cast<int64_t>(from.size()), view, 0);
  for (size_t i = 0; i < from.size(); ++i) {
    if (std::isnan(from[i])) {
      EXPECT_TRUE(std::isnan(static_cast<float>(to[i]))) << i;
    } else {
      ASSERT_EQ(to[i].bits, TypeParam(from[i]).bits) << from[i];
    }
  }
}

TYPED_TEST(Convert, rounds_as_storing_does) {
  std::vector<float> values = awkward_floats();
  const std::vector<float> before = values;
  round_to(dtype_of<TypeParam>, values.data(), static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto expected = static_cast<float>(TypeParam(before[i]));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(values[i])) << i;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(expected)) << before[i];
    }
  }
  values = before;
  round_to(DType::f32, values.data(), static_cast<int64_t>(values.size()));
  EXPECT_EQ(std::memcmp(values.data(), before.data(), values.size() * sizeof(float)), 0);
}

TYPED_TEST(Convert, keeps_to_its_stretch) {
  for (int64_t count = 0; count < 70; ++count) {
    std::vector<float> from(80, 2.0f);
    std::vector<TypeParam> to(80, TypeParam(1.0f));
    narrow(from.data(), count, {to.data(), dtype_of<TypeParam>, Shape{80}}, 5);
    for (int64_t i = 0; i < 80; ++i) {
      EXPECT_EQ(static_cast<float>(to[i]), i >= 5 && i < 5 + count ? 2.0f : 1.0f);
    }
  }
}

}  // namespace
}  // namespace trireme::cpu
