#include "trireme/mesh/way.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/ops/table.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

IndexRule rule_of(std::string_view op, const std::vector<TensorType>& inputs, const Attrs& attrs = {}) {
  return ops().at(op).index({op, inputs, attrs});
}

TensorType f32(Shape shape) {
  return {DType::f32, shape};
}

// "m: {0} {} -> {0}" for each way over one axis.
std::vector<std::string> described(const IndexRule& rule, const Mesh& mesh) {
  std::vector<std::string> result;
  for (const Way& way : ways_to_split(rule, mesh)) {
    const OperandLayouts layouts = layouts_of(rule, way, mesh);
    std::string text = way[0].index < 0 ? "none:" : rule.indices[way[0].index].name + ":";
    for (const Layout& layout : layouts.inputs) text += " " + to_string(layout, mesh);
    text += " ->";
    for (const Layout& layout : layouts.outputs) text += " " + to_string(layout, mesh);
    result.push_back(text);
  }
  return result;
}

TEST(Way, MatmulHasThree) {
  EXPECT_THAT(described(rule_of("matmul", {f32({8, 4}), f32({4, 6})}), Mesh({{"t", 2}})),
              UnorderedElementsAre("none: {} {} -> {}", "m: {t:0} {} -> {t:0}", "n: {} {t:1} -> {t:1}",
                                   "k: {t:1} {t:0} -> {t:sum}"));
}

TEST(Way, WholeIndicesAreNotCut) {
  EXPECT_THAT(described(rule_of("layer_norm", {f32({8, 4}), f32({4}), f32({4})}), Mesh({{"t", 2}})),
              UnorderedElementsAre("none: {} {} {} -> {} {} {}", "b0: {t:0} {} {} -> {t:0} {t:0} {t:0}"));
}

TEST(Way, NoRankGoesWithoutWork) {
  // Four ranks can not share three rows.
  EXPECT_THAT(described(rule_of("matmul", {f32({3, 8}), f32({8, 8})}), Mesh({{"t", 4}})),
              UnorderedElementsAre("none: {} {} -> {}", "n: {} {t:1} -> {t:1}", "k: {t:1} {t:0} -> {t:sum}"));
}

TEST(Way, TwoAxesMayCutOneIndexWhileItLasts) {
  const IndexRule rule = rule_of("neg", {f32({4})});
  EXPECT_EQ(ways_to_split(rule, Mesh({{"d", 2}, {"t", 2}})).size(), 4u);
  EXPECT_EQ(ways_to_split(rule, Mesh({{"d", 2}, {"t", 4}})).size(), 3u);
}

// Ranks would disagree about the extents that the second axis cuts.
TEST(Way, TwoAxesCutOneIndexOnlyInEqualParts) {
  const Mesh mesh({{"d", 2}, {"t", 2}});
  const Way both = {{.index = 0}, {.index = 0}};
  for (const int64_t extent : {5, 6, 7, 9, 10, 14}) {
    const IndexRule rule = rule_of("neg", {f32({extent})});
    EXPECT_FALSE(is_legal(rule, both, mesh)) << extent;
    EXPECT_EQ(ways_to_split(rule, mesh).size(), 3u) << extent;  // not at all, or by one of the axes
  }
  for (const int64_t extent : {4, 8, 12}) {
    EXPECT_TRUE(is_legal(rule_of("neg", {f32({extent})}), both, mesh)) << extent;
  }
}

TEST(Way, ACutOfAMajorIndexKeepsTheMinorOnesTogether) {
  // [2, 6, 64] -> [2, 384]: dim 1 of the result is (heads, 64).
  const IndexRule rule = rule_of("reshape", {f32({2, 6, 64})}, {{"shape", std::vector<int64_t>{2, 384}}});
  const Mesh mesh({{"tensor", 4}});
  bool found = false;
  for (const Way& way : ways_to_split(rule, mesh)) {
    const OperandLayouts layouts = layouts_of(rule, way, mesh);
    if (layouts.inputs[0] != parse_layout("{tensor:1}", mesh)) continue;
    EXPECT_EQ(layouts.outputs[0], parse_layout("{tensor:1/64}", mesh));
    found = true;
  }
  EXPECT_TRUE(found);
}

TEST(Way, CutFromAPlacementIsItsInverse) {
  const IndexRule rule = rule_of("reshape", {f32({2, 6, 64})}, {{"shape", std::vector<int64_t>{2, 384}}});
  // By heads: the same boundaries on both sides.
  const auto cut = cut_from(rule, rule.outputs[0], Placement::split(1, 64), 4);
  ASSERT_TRUE(cut);
  EXPECT_EQ(layouts_of(rule, {*cut}, Mesh({{"t", 4}})).inputs[0], (Layout{Placement::split(1)}));
  // Even parts of 96 would cut heads in two.
  EXPECT_EQ(cut_from(rule, rule.outputs[0], Placement::split(1), 4), std::nullopt);
  // Even parts of 192 do not.
  EXPECT_TRUE(cut_from(rule, rule.outputs[0], Placement::split(1), 2));
  EXPECT_EQ(cut_from(rule, rule.outputs[0], Placement::sum(), 2), std::nullopt);
}

TEST(Way, AnIndexOfSeveralBlocksIsCutInEach) {
  // Queries, keys and values made by one product: 3 blocks of 2 heads of 8.
  const IndexRule rule = rule_of("matmul", {f32({5, 16}), f32({16, 48})});
  const Mesh mesh({{"tensor", 2}});
  const Layout by_heads = parse_layout("{tensor:1/8x3}", mesh);
  const auto cut = cut_from(rule, rule.inputs[1], by_heads[0], 2);
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->blocks, 3);
  EXPECT_TRUE(is_legal(rule, {*cut}, mesh));
  const OperandLayouts layouts = layouts_of(rule, {*cut}, mesh);
  EXPECT_EQ(layouts.inputs[1], by_heads);
  EXPECT_EQ(layouts.outputs[0], by_heads);
  EXPECT_FALSE(is_legal(rule, {{cut->index, 16, 3}}, mesh));  // one head for two ranks
}

TEST(Way, QueriesKeysAndValuesAreCutTogetherByHeads) {
  const Mesh mesh({{"tensor", 2}});
  const IndexRule rule =
      rule_of("split", {f32({5, 24})}, {{"dim", int64_t{1}}, {"sizes", std::vector<int64_t>(3, 8)}});
  const auto cut = cut_from(rule, rule.inputs[0], Placement::split(1, 4, 3), 2);
  ASSERT_TRUE(cut);
  for (const Layout& layout : layouts_of(rule, {*cut}, mesh).outputs) {
    EXPECT_EQ(normal_form(layout, {5, 8}, mesh), parse_layout("{tensor:1}", mesh));
  }
  // Cutting all 24 columns in two halves would give one rank q and half of k.
  EXPECT_EQ(cut_from(rule, rule.inputs[0], Placement::split(1), 2), std::nullopt);
}

// A sequence dealt out in stripes, and halves of it along another axis.
TEST(Way, APartMayBePieces) {
  const IndexRule rule = rule_of("relu", {f32({24, 2})});
  const auto pieces = [&](const char* layout, const Mesh& mesh, int rank) {
    const Layout given = parse_layout(layout, mesh);
    Way way(mesh.axes().size());
    for (size_t a = 0; a < way.size(); ++a) {
      if (given[a].kind == Placement::Kind::kSplit)
        way[a] = cut_from(rule, rule.inputs[0], given[a], mesh.axes()[a].size).value();
    }
    return pieces_under(rule, way, 0, mesh, rank);
  };
  const Mesh one({{"context", 2}}), two({{"tensor", 2}, {"context", 2}});
  EXPECT_EQ(pieces("{context:0x3}", one, 1), (Pieces{{4, 4}, {12, 4}, {20, 4}}));
  EXPECT_EQ(stride_of(pieces("{context:0x3}", one, 1)), 8);
  EXPECT_EQ(pieces("{context:0}", one, 1), (Pieces{{12, 12}}));
  EXPECT_EQ(stride_of(pieces("{context:0}", one, 1)), 12);
  EXPECT_EQ(pieces("{tensor:0 context:0x4}", two, 3), (Pieces{{15, 3}, {21, 3}}));
  // Halves of what lies in three stripes: one and a half.
  EXPECT_EQ(stride_of(pieces("{tensor:0 context:0x3}", two, 0)), std::nullopt);
}

}  // namespace
}  // namespace trireme
