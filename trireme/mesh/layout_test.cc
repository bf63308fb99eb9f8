#include "trireme/mesh/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "trireme/base/error.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Mesh kMesh({{"data", 2}, {"tensor", 2}});

TEST(Layout, TextRoundTrip) {
  for (const char* text : {"{}", "{data:0}", "{data:1 tensor:sum}", "{tensor:1/64}", "{tensor:1x3}",
                           "{tensor:1/64x3}", "{data:max tensor:0}"}) {
    EXPECT_EQ(to_string(parse_layout(text, kMesh), kMesh), text);
  }
}

TEST(Layout, BadTextIsRefused) {
  EXPECT_THAT(error_of([] { parse_layout("data:0", kMesh); }), HasSubstr("braces around it expected"));
  EXPECT_THAT(error_of([] { parse_layout("{date:0}", kMesh); }), HasSubstr("did you mean data?"));
  EXPECT_THAT(error_of([] { parse_layout("{data:a}", kMesh); }), HasSubstr("'a' found in 'data:a'"));
  EXPECT_THAT(error_of([] { parse_layout("{data}", kMesh); }), HasSubstr("a dim such as data:0"));
  EXPECT_THAT(error_of([] { parse_layout("{data:0/0}", kMesh); }), HasSubstr("has 0 after /"));
  EXPECT_THAT(error_of([] { parse_layout("{data:0 data:1}", kMesh); }), HasSubstr("axis data comes twice"));
  EXPECT_THAT(error_of([] {
                check_layout(parse_layout("{data:2}", kMesh), {4, 4}, kMesh, "w");
              }),
              HasSubstr("layout {data:2} of w: dim 2 of [4,4] does not exist"));
  EXPECT_THAT(error_of([] {
                check_layout(parse_layout("{data:0/3}", kMesh), {4, 4}, kMesh, "w");
              }),
              HasSubstr("dim 0 of [4,4] can not be cut in 1 block(s) of whole units of 3"));
}

TEST(Layout, TwoCutsOfOneDimAreEven) {
  EXPECT_THAT(error_of([] { check_layout(parse_layout("{data:0 tensor:0}", kMesh), {6}, kMesh, "w"); }),
              HasSubstr("is cut by two axes, but does not divide evenly"));
  check_layout(parse_layout("{data:0 tensor:0}", kMesh), {8}, kMesh, "w");
}

TEST(Layout, UnevenPartsCoverTheWhole) {
  const Shape whole{5, 7};
  std::vector<int> covered(35);
  for (int rank = 0; rank < kMesh.ranks(); ++rank) {
    const std::vector<Pieces> pieces =
        local_pieces(whole, parse_layout("{data:0 tensor:1}", kMesh), kMesh, rank);
    ASSERT_EQ(pieces[0].size(), 1u);
    ASSERT_EQ(pieces[1].size(), 1u);
    for (int64_t i = pieces[0][0].begin; i < pieces[0][0].end(); ++i) {
      for (int64_t j = pieces[1][0].begin; j < pieces[1][0].end(); ++j) ++covered[i * 7 + j];
    }
  }
  EXPECT_THAT(covered, testing::Each(1));
}

TEST(Layout, TheInnerAxisCutsFirst) {
  const Layout layout = parse_layout("{data:0 tensor:0}", kMesh);
  // Ranks 0 and 1 are tensor 0 and 1 of data 0.
  EXPECT_THAT(local_pieces({8}, layout, kMesh, 0)[0], ElementsAre(Part{0, 2}));
  EXPECT_THAT(local_pieces({8}, layout, kMesh, 1)[0], ElementsAre(Part{4, 2}));
  EXPECT_THAT(local_pieces({8}, layout, kMesh, 2)[0], ElementsAre(Part{2, 2}));
}

TEST(Layout, UnitsStayTogether) {
  const Layout layout = parse_layout("{tensor:0/64}", kMesh);
  EXPECT_EQ(local_shape({192, 3}, layout, kMesh, 0), (Shape{128, 3}));
  EXPECT_EQ(local_shape({192, 3}, layout, kMesh, 1), (Shape{64, 3}));
}

TEST(Layout, EveryBlockIsCut) {
  const Layout layout = parse_layout("{tensor:0x3}", kMesh);
  EXPECT_THAT(local_pieces({12}, layout, kMesh, 1)[0], ElementsAre(Part{2, 2}, Part{6, 2}, Part{10, 2}));
  EXPECT_EQ(local_shape({12}, layout, kMesh, 1), (Shape{6}));
}

TEST(Layout, NormalFormDropsWhatChangesNothing) {
  EXPECT_EQ(normal_form(parse_layout("{tensor:0/64}", kMesh), {128}, kMesh),
            parse_layout("{tensor:0}", kMesh));
  EXPECT_EQ(normal_form(parse_layout("{tensor:0/64}", kMesh), {192}, kMesh),
            parse_layout("{tensor:0/64}", kMesh));
  const Mesh one({{"data", 1}});
  EXPECT_EQ(normal_form(parse_layout("{data:0}", one), {192}, one), replicated(one));
}

}  // namespace
}  // namespace trireme
