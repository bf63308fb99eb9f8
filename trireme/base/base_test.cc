// dtype, shape, text and rng: the small parts that everything else trusts.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "trireme/base/dtype.h"
#include "trireme/base/error.h"
#include "trireme/base/rng.h"
#include "trireme/base/shape.h"
#include "trireme/base/text.h"

namespace trireme {
namespace {

TEST(DType, NamesRoundTrip) {
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32, DType::u8}) {
    EXPECT_EQ(parse_dtype(name(dtype)), dtype);
  }
  EXPECT_EQ(parse_dtype("float32"), std::nullopt);
}

// Every one of the 65,536 bit patterns survives widening and narrowing.
template <typename Half>
void expect_all_patterns_round_trip() {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    Half half;
    half.bits = static_cast<uint16_t>(bits);
    const float wide = static_cast<float>(half);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(Half(wide))));
    } else {
      ASSERT_EQ(Half(wide).bits, bits);
    }
  }
}
TEST(DType, Bf16RoundTrips) {
  expect_all_patterns_round_trip<Bf16>();
}
TEST(DType, F16RoundTrips) {
  expect_all_patterns_round_trip<F16>();
}

// Narrowing picks the nearest neighbour, and the even one on a tie.
template <typename Half>
void expect_rounds_to_nearest_even(uint16_t first, uint16_t last) {
  for (uint32_t bits = first; bits < last; ++bits) {
    Half low, high;
    low.bits = static_cast<uint16_t>(bits);
    high.bits = static_cast<uint16_t>(bits + 1);
    const float a = static_cast<float>(low), b = static_cast<float>(high), middle = a + (b - a) / 2;
    ASSERT_EQ(Half(middle).bits, bits % 2 ? bits + 1 : bits);
    ASSERT_EQ(Half(std::nextafter(middle, a)).bits, bits);
    ASSERT_EQ(Half(std::nextafter(middle, b)).bits, bits + 1);
  }
}
TEST(DType, Bf16RoundsToNearestEven) {
  expect_rounds_to_nearest_even<Bf16>(0x0080, 0x7f7f);
}
TEST(DType, F16RoundsToNearestEven) {
  expect_rounds_to_nearest_even<F16>(0, 0x7bff);
}
TEST(DType, F16OverflowsToInfinity) {
  EXPECT_EQ(F16(65519.0f).bits, 0x7bff);
  EXPECT_EQ(F16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(F16(-1e30f).bits, 0xfc00);
}

TEST(Shape, ElementsAndSuffix) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.elements(), 24);
  EXPECT_EQ(shape.elements(1, 3), 12);
  EXPECT_EQ(Shape{}.elements(), 1);
  EXPECT_TRUE((Shape{3, 4}).is_suffix_of(shape));
  EXPECT_TRUE(Shape{}.is_suffix_of(shape));
  EXPECT_FALSE((Shape{2, 3}).is_suffix_of(shape));
  EXPECT_EQ(to_string(shape), "[2,3,4]");
  EXPECT_DEATH(shape[3], "dim < rank_ \\(3 against 3\\)");
}

TEST(Text, NearestFindsMisspellingsOnly) {
  const std::vector<std::string> keys = {"batch", "steps", "threads"};
  EXPECT_EQ(nearest("bacth", keys), "batch");
  EXPECT_EQ(nearest("step", keys), "steps");
  EXPECT_EQ(nearest("completely", keys), "");
}

TEST(Text, PrintableKeepsTextAndReplacesTheRest) {
  EXPECT_EQ(printable("a\tb\n\u00e9\u6f22\U0001F6F6"), "a\tb\n\u00e9\u6f22\U0001F6F6");
  EXPECT_EQ(printable("\x1b[2J"), "\ufffd[2J");
  EXPECT_EQ(printable("\xff"
                      "x\xe6\xbc"),
            "\ufffdx\ufffd\ufffd");
  EXPECT_EQ(printable("\xc0\x80\xed\xa0\x80"), "\ufffd\ufffd\ufffd\ufffd\ufffd") << "overlong; a surrogate";
  EXPECT_EQ(printable("\xc2\x9b"), "\ufffd") << "an eight-bit control character";
}

TEST(Text, FormatBytes) {
  EXPECT_EQ(format_bytes(17), "17 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
}

// Known answers of Philox 4x32-10 from the Random123 distribution.
TEST(Rng, PhiloxKnownAnswers) {
  EXPECT_EQ(random_words({0, 0}, 0),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint64_t ones = ~uint64_t{0};
  EXPECT_EQ(random_words({ones, ones}, ones),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Rng, MomentsAreRight) {
  constexpr int kCount = 200000;
  double sum = 0, squares = 0, uniforms = 0;
  for (int i = 0; i < kCount; ++i) {
    const double z = normal({7, 1}, i);
    sum += z;
    squares += z * z;
    uniforms += uniform({7, 2}, i);
  }
  EXPECT_NEAR(sum / kCount, 0, 0.01);
  EXPECT_NEAR(squares / kCount, 1, 0.02);
  EXPECT_NEAR(uniforms / kCount, 0.5, 0.005);
}

TEST(Error, CarriesItsText) {
  try {
    throw_error("{} found, {} expected", 3, 4);
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "3 found, 4 expected");
  }
}

}  // namespace
}  // namespace trireme
