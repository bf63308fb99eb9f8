#include "trireme/mesh/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

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

// 3 samples of 4 tokens as 12 rows; samples over data, tokens over tensor. Which axis comes first in the mesh
// does not matter, and neither cut need be even.
TEST(Layout, CutsThatDoNotOverlapAreTakenTogether) {
  for (const char* axes : {"data:2 tensor:2", "tensor:2 data:2"}) {
    const Mesh mesh = parse_mesh(axes);
    const Layout layout = parse_layout("{data:0/4 tensor:0x3}", mesh);
    check_layout(layout, {12}, mesh, "rows");
    const auto rank_at = [&](int data, int tensor) {
      return mesh.axes()[0].name == "data" ? mesh.rank_at({data, tensor}) : mesh.rank_at({tensor, data});
    };
    EXPECT_THAT(local_pieces({12}, layout, mesh, rank_at(0, 1))[0], ElementsAre(Part{2, 2}, Part{6, 2}));
    EXPECT_THAT(local_pieces({12}, layout, mesh, rank_at(1, 0))[0], ElementsAre(Part{8, 2}));
    EXPECT_EQ(local_shape({12}, layout, mesh, rank_at(0, 1)), (Shape{4}));
    EXPECT_EQ(local_shape({12}, layout, mesh, rank_at(1, 1)), (Shape{2}));
  }
}

std::vector<int64_t> elements_of(const Pieces& pieces) {
  std::vector<int64_t> elements;
  for (const Part& piece : pieces) {
    for (int64_t i = piece.begin; i < piece.end(); ++i) elements.push_back(i);
  }
  return elements;
}

Placement drawn_placement(std::mt19937& random) {
  if (random() % 5 == 0) return {};
  constexpr int64_t kSizes[] = {1, 1, 2, 3, 4, 6, 12};
  return Placement::split(0, kSizes[random() % 7], kSizes[random() % 7]);
}

// What holds for every layout of one dim that is not refused, drawn at random.
TEST(Layout, AnyCutsCoverTheWholeAndAreWhatCollectivesAreTold) {
  std::mt19937 random(7);
  int tried = 0;
  for (int draw = 0; draw < 10000; ++draw) {
    std::vector<Axis> axes;
    for (const char* name : {"a", "b", "c"}) axes.push_back({name, 2 + static_cast<int>(random() % 2)});
    if (random() % 2) axes.pop_back();
    const Mesh mesh(axes);
    constexpr int64_t kExtents[] = {12, 20, 24, 30, 36, 48, 72};
    const Shape whole{kExtents[random() % 7]};
    Layout layout;
    for (size_t a = 0; a < axes.size(); ++a) layout.push_back(drawn_placement(random));
    try {
      check_layout(layout, whole, mesh, "a test");
    } catch (const Error&) {
      continue;
    }
    ++tried;
    const std::string text =
        fmt::format("{} of {} on {}", to_string(layout, mesh), to_string(whole), to_string(mesh));
    int copies = 1;
    for (size_t a = 0; a < axes.size(); ++a) {
      if (layout[a].kind != Placement::Kind::kSplit) copies *= axes[a].size;
    }
    std::vector<int> covered(whole[0]);
    const Layout normal = normal_form(layout, whole, mesh);
    for (int rank = 0; rank < mesh.ranks(); ++rank) {
      const Pieces pieces = local_pieces(whole, layout, mesh, rank)[0];
      const std::vector<int64_t> held = elements_of(pieces);
      for (int64_t i : held) ++covered[i];
      ASSERT_EQ(local_shape(whole, layout, mesh, rank)[0], static_cast<int64_t>(held.size())) << text;
      ASSERT_EQ(elements_of(local_pieces(whole, normal, mesh, rank)[0]), held) << text;
      for (size_t a = 0; a < axes.size(); ++a) {
        const int axis = static_cast<int>(a);
        if (layout[a].kind != Placement::Kind::kSplit) continue;
        bool innermost = true;
        for (int inner = 0; inner < axis; ++inner) innermost &= !are_nested(whole, layout, mesh, axis, inner);
        if (!innermost) continue;
        Layout without = layout;
        without[a] = {};
        const std::vector<int64_t> together = elements_of(local_pieces(whole, without, mesh, rank)[0]);
        const Placement told = local_placement(whole, layout, mesh, rank, axis);
        const Mesh along({axes[a]});
        std::vector<int64_t> part;
        for (int64_t i : elements_of(local_pieces({static_cast<int64_t>(together.size())}, {told}, along,
                                                  mesh.coordinate(rank, axis))[0]))
          part.push_back(together[i]);
        ASSERT_EQ(part, held) << text << ", rank " << rank << " along " << axes[a].name;
      }
    }
    ASSERT_THAT(covered, testing::Each(copies)) << text;
  }
  EXPECT_GT(tried, 1000);
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
