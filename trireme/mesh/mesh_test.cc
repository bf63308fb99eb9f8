#include "trireme/mesh/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "trireme/base/error.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Mesh, NumbersRanksWithTheLastAxisInnermost) {
  const Mesh mesh({{"data", 2}, {"tensor", 3}});
  EXPECT_EQ(mesh.ranks(), 6);
  EXPECT_THAT(mesh.members(4, mesh.axis("tensor")), ElementsAre(3, 4, 5));
  EXPECT_THAT(mesh.members(4, mesh.axis("data")), ElementsAre(1, 4));
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    EXPECT_EQ(mesh.rank_at({mesh.coordinate(rank, 0), mesh.coordinate(rank, 1)}), rank);
  }
}

TEST(Mesh, TextRoundTrip) {
  for (const char* text : {"", "data:4", "pipe:2 data:4 tensor:8"})
    EXPECT_EQ(to_string(parse_mesh(text)), text);
  EXPECT_EQ(to_string(parse_mesh("data:4,tensor:2")), "data:4 tensor:2");
  EXPECT_EQ(parse_mesh("").ranks(), 1);
}

TEST(Mesh, ReplicasLieAlongTheirOwnAxisOrAlongData) {
  EXPECT_EQ(replica_axis(parse_mesh("data:4 tensor:2")), "data");
  EXPECT_EQ(replica_axis(parse_mesh("replica:2 data:4")), "replica");
  EXPECT_EQ(replica_axis(parse_mesh("replica:1 data:4")), "data");
  EXPECT_EQ(replicas_of(parse_mesh("replica:2 data:4")), 2);
  EXPECT_EQ(replica_of(parse_mesh("replica:2 data:4"), 5), 1);
  EXPECT_EQ(replicas_of(parse_mesh("tensor:2")), 1);
}

TEST(Mesh, BadOnesAreRefused) {
  EXPECT_THAT(error_of([] { parse_mesh("data"); }),
              HasSubstr("'data' found, an axis with its size expected"));
  EXPECT_THAT(error_of([] { parse_mesh("data:0"); }), HasSubstr("'data:0'"));
  EXPECT_THAT(error_of([] { parse_mesh("data:2 data:3"); }), HasSubstr("data is named twice"));
  EXPECT_THAT(error_of([] { parse_mesh("Data:2"); }), HasSubstr("'Data' has no usable name"));
  EXPECT_THAT(error_of([] { parse_mesh("a:65536 b:65536"); }), HasSubstr("at most 1048576 expected"));
  EXPECT_THAT(error_of([] { parse_mesh("data:2 tensor:2").axis("tenser"); }),
              HasSubstr("did you mean tensor?"));
}

}  // namespace
}  // namespace trireme
