// The limits against those of the standards, and against each number of the 16-bit formats.
#include "trireme/base/format_limits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace trireme {
namespace {

TEST(FormatLimits, OfF32AreThoseOfTheMachine) {
  using Float = std::numeric_limits<float>;
  const FormatLimits limits = limits_of(DType::f32);
  EXPECT_EQ(limits.epsilon, Float::epsilon());
  EXPECT_EQ(limits.largest, Float::max());
  EXPECT_EQ(limits.overflows_from, Float::infinity());
  EXPECT_EQ(limits.smallest_normal, Float::min());
  EXPECT_EQ(limits.smallest, Float::denorm_min());
  EXPECT_EQ(limits.underflows_up_to, 0);
  EXPECT_EQ(limits.counts_up_to, 0x1p24f);
}

TEST(FormatLimits, OfSixteenBits) {
  const FormatLimits half = limits_of(DType::f16), brain = limits_of(DType::bf16);
  EXPECT_EQ(half.epsilon, 0x1p-10f);
  EXPECT_EQ(half.largest, 65504);
  EXPECT_EQ(half.overflows_from, 65520);
  EXPECT_EQ(half.smallest_normal, 0x1p-14f);
  EXPECT_EQ(half.smallest, 0x1p-24f);
  EXPECT_EQ(half.underflows_up_to, 0x1p-25f);  // halfway rounds to even, which is 0
  EXPECT_EQ(half.counts_up_to, 2048);
  EXPECT_EQ(brain.epsilon, 0x1p-7f);
  EXPECT_EQ(brain.smallest_normal, 0x1p-126f);
  EXPECT_EQ(brain.smallest, 0x1p-133f);
  EXPECT_EQ(brain.counts_up_to, 256);
}

// Of all numbers that a format has, the largest and the smallest are the limits.
template <typename T>
void check_all_numbers() {
  float largest = 0, smallest = HUGE_VALF;
  for (uint32_t bits = 1; bits < 0x8000; ++bits) {
    T number;
    number.bits = static_cast<uint16_t>(bits);
    const float value = static_cast<float>(number);
    if (!std::isfinite(value)) continue;
    largest = std::max(largest, value);
    smallest = std::min(smallest, value);
  }
  const FormatLimits limits = limits_of(dtype_of<T>);
  EXPECT_EQ(limits.largest, largest);
  EXPECT_EQ(limits.smallest, smallest);
}
TEST(FormatLimits, AreThoseOfAllNumbers) {
  check_all_numbers<F16>();
  check_all_numbers<Bf16>();
}

}  // namespace
}  // namespace trireme
