#include "trireme/mesh/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/base/error.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Mesh kMesh({{"data", 2}, {"tensor", 2}});

template <typename Body>
std::string error_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Layout, TextRoundTrip) {
  for (const char* text : {"{}", "{data:0}", "{data:1 tensor:sum}", "{tensor:1/64}", "{data:max tensor:0}"}) {
    EXPECT_EQ(to_string(parse_layout(text, kMesh), kMesh), text);
  }
}

TEST(Layout, BadTextIsRefused) {
  EXPECT_THAT(error_of([] { parse_layout("data:0", kMesh); }), HasSubstr("braces around it expected"));
  EXPECT_THAT(error_of([] { parse_layout("{date:0}", kMesh); }), HasSubstr("did you mean data?"));
  EXPECT_THAT(error_of([] { parse_layout("{data:x}", kMesh); }), HasSubstr("'x' found in 'data:x'"));
  EXPECT_THAT(error_of([] { parse_layout("{data}", kMesh); }), HasSubstr("a dim such as data:0"));
  EXPECT_THAT(error_of([] { parse_layout("{data:0/0}", kMesh); }), HasSubstr("has unit 0"));
  EXPECT_THAT(error_of([] { parse_layout("{data:0 data:1}", kMesh); }), HasSubstr("axis data comes twice"));
  EXPECT_THAT(error_of([] {
                check_layout(parse_layout("{data:2}", kMesh), {4, 4}, kMesh, "w");
              }),
              HasSubstr("layout {data:2} of w: there is no dim 2 in [4,4]"));
  EXPECT_THAT(error_of([] {
                check_layout(parse_layout("{data:0/3}", kMesh), {4, 4}, kMesh, "w");
              }),
              HasSubstr("dim 0 of [4,4] is no multiple of the unit 3"));
}

TEST(Layout, UnevenPartsCoverTheWhole) {
  const Shape whole{5, 7};
  std::vector<int> covered(35);
  for (int rank = 0; rank < kMesh.ranks(); ++rank) {
    const std::vector<Part> parts = local_part(whole, parse_layout("{data:0 tensor:1}", kMesh), kMesh, rank);
    for (int64_t i = parts[0].begin; i < parts[0].end(); ++i) {
      for (int64_t j = parts[1].begin; j < parts[1].end(); ++j) ++covered[i * 7 + j];
    }
  }
  EXPECT_THAT(covered, testing::Each(1));
}

TEST(Layout, TheInnerAxisCutsFirst) {
  const Layout layout = parse_layout("{data:0 tensor:0}", kMesh);
  // Ranks 0 and 1 are tensor 0 and 1 of data 0.
  EXPECT_EQ(local_part({8}, layout, kMesh, 0)[0], (Part{0, 2}));
  EXPECT_EQ(local_part({8}, layout, kMesh, 1)[0], (Part{4, 2}));
  EXPECT_EQ(local_part({8}, layout, kMesh, 2)[0], (Part{2, 2}));
}

TEST(Layout, UnitsStayTogether) {
  const Layout layout = parse_layout("{tensor:0/64}", kMesh);
  EXPECT_EQ(local_shape({192, 3}, layout, kMesh, 0), (Shape{128, 3}));
  EXPECT_EQ(local_shape({192, 3}, layout, kMesh, 1), (Shape{64, 3}));
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
