// Index notation: what a rule says about shapes and splits, and how it refuses inputs that do not fit.
#include "trireme/ir/index_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/base/error.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

IndexRule bound(std::string_view text, const std::vector<Shape>& shapes) {
  std::vector<TensorType> types;
  for (const Shape& shape : shapes) types.push_back({DType::f32, shape});
  static const Attrs none;
  return rule({"op", types, none}, WrittenRule(text));
}

std::string splittable(const IndexRule& rule) {
  std::string names;
  for (size_t i = 0; i < rule.indices.size(); ++i) {
    if (rule.may_split(static_cast<int>(i))) names += (names.empty() ? "" : " ") + rule.indices[i].name;
  }
  return names;
}

TEST(IndexRule, ShapesOfResultsFollowFromTheInputs) {
  IndexRule r = bound("x[b… h] gain[h] -> y[b… h] mean[b…] total[]", {{2, 3, 5}, {5}}).whole("h");
  EXPECT_EQ(r.output_shape(0), (Shape{2, 3, 5}));
  EXPECT_EQ(r.output_shape(1), (Shape{2, 3}));
  EXPECT_EQ(r.output_shape(2), Shape{});
  EXPECT_EQ(splittable(r), "b0 b1");
  EXPECT_EQ(r.text("op"), "op [b0 b1 h] [h] -> [b0 b1 h] [b0 b1] []");
}

TEST(IndexRule, OneEllipsisIsResolvedWithTheHelpOfAnotherInput) {
  const IndexRule r = bound("a[b… s…] b[s…] -> y[b… s…]", {{2, 3, 5, 7}, {5, 7}});
  EXPECT_EQ(r.text("add"), "add [b0 b1 s0 s1] [s0 s1] -> [b0 b1 s0 s1]");
}

TEST(IndexRule, AnEllipsisMayStandForNothing) {
  EXPECT_EQ(bound("x[b… h] -> y[b…]", {{5}}).output_shape(0), Shape{});
}

TEST(IndexRule, EveryIndexOfASharedDimMayBeSplit) {
  const IndexRule r = bound("x[a g d] -> y[a (g d)]", {{2, 3, 5}});
  EXPECT_EQ(r.output_shape(0), (Shape{2, 15}));
  EXPECT_EQ(splittable(r), "a g d");
}

TEST(IndexRule, AnIndexThatNoInputHasGetsItsSize) {
  EXPECT_EQ(bound("x[b] -> y[b v]", {{2}}).size("v", 7).output_shape(0), (Shape{2, 7}));
}

TEST(IndexRule, MaxAndWholeReachAllIndicesOfAnEllipsis) {
  IndexRule r = bound("x[r… i] -> y[i]", {{2, 3, 5}});
  r.max("r…");
  EXPECT_EQ(r.indices[0].combine, Index::Combine::kMax);
  EXPECT_EQ(r.indices[1].combine, Index::Combine::kMax);
  EXPECT_EQ(r.indices[2].combine, Index::Combine::kSum);
  EXPECT_EQ(splittable(r.whole("r…")), "i");
}

TEST(IndexRule, VolumeMayExceedSixtyFourBits) {
  const int64_t wide = int64_t{1} << 24;
  EXPECT_EQ(bound("a[m k] b[k n] -> y[m n]", {{wide, wide}, {wide, wide}}).volume(), 0x1p72);
}

TEST(IndexRule, RefusesAWrongNumberOfInputs) {
  EXPECT_THAT([] { bound("a[i] b[i] -> y[i]", {{2}}); },
              ThrowsMessage<Error>(AllOf(HasSubstr("[op]"), HasSubstr("1 inputs given, 2 expected"))));
}

TEST(IndexRule, RefusesAWrongRank) {
  EXPECT_THAT(
      [] {
        bound("a[m k] b[k n] -> y[m n]", {{2, 3}, {3}});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("b has 1 dims (f32[3])"), HasSubstr("b[k n]"))));
  EXPECT_THAT([] { bound("a[b… m k] -> y[b… m k]", {{2}}); },
              ThrowsMessage<Error>(HasSubstr("a has 1 dims")));
}

TEST(IndexRule, RefusesExtentsThatDiffer) {
  EXPECT_THAT(
      [] {
        bound("a[m k] b[k n] -> y[m n]", {{2, 3}, {4, 5}});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("dim 0 of b is 4"), HasSubstr("k is 3"))));
}

TEST(IndexRule, RefusesAResultOfTooManyDims) {
  const Shape ids{1, 1, 1, 1, 1, 1, 1, 1};
  EXPECT_THAT(
      [&] {
        bound("table[v h] ids[b…] -> y[b… h]", {{4, 2}, ids});
      },
      ThrowsMessage<Error>(HasSubstr("9 dims, at most 8")));
}

IndexRule reshape(const Shape& from, std::vector<int64_t> to) {
  const std::vector<TensorType> types{{DType::f32, from}};
  const Attrs attrs{{"shape", std::move(to)}};
  return ops().at("reshape").index({"reshape", types, attrs});
}

TEST(ReshapeRule, SharesDimsThatAreDividedOrJoined) {
  EXPECT_EQ(reshape({2, 5, 12}, {2, 5, 3, 4}).text("reshape"), "reshape [i0 i1 (i2 i3)] -> [i0 i1 i2 i3]");
  EXPECT_EQ(splittable(reshape({2, 5, 12}, {2, 5, 3, 4})), "i0 i1 i2 i3");
  EXPECT_EQ(reshape({4, 5, 6}, {20, 6}).text("reshape"), "reshape [i0 i1 i2] -> [(i0 i1) i2]");
}

TEST(ReshapeRule, KeepsDimsWholeThatAreRegrouped) {
  EXPECT_EQ(splittable(reshape({4, 6, 3}, {6, 4, 3})), "i4");
}

TEST(ReshapeRule, HasNothingToSplitWhenThereAreNoElements) {
  for (const std::vector<int64_t>& to : {std::vector<int64_t>{0, 3}, {0}, {5, 0, 7}, {2, 0}}) {
    const IndexRule r = reshape({0, 2}, to);
    EXPECT_EQ(r.output_shape(0), Shape(to));
    EXPECT_EQ(splittable(r), "");
  }
}

}  // namespace
}  // namespace trireme
