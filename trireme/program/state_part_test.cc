#include "trireme/program/state_part.h"

#include <gmock/gmock.h>

#include <array>

namespace trireme {
namespace {

using Stretch = std::array<int64_t, 3>;  // first element in the whole, in the part, elements

std::vector<Stretch> runs_of(const Shape& whole, const std::vector<Pieces>& pieces) {
  StatePart part;
  part.whole = whole;
  part.pieces = pieces;
  std::vector<Stretch> runs;
  for_each_run(part, [&](int64_t from, int64_t to, int64_t count) { runs.push_back({from, to, count}); });
  return runs;
}

TEST(StatePart, RunsAreAsLongAsPiecesAllow) {
  EXPECT_THAT(runs_of({2, 3, 4}, {{{0, 2}}, {{0, 3}}, {{0, 4}}}), testing::ElementsAre(Stretch{0, 0, 24}));
  EXPECT_THAT(runs_of({2, 3, 4}, {{{1, 1}}, {{0, 3}}, {{0, 4}}}), testing::ElementsAre(Stretch{12, 0, 12}));
  EXPECT_THAT(runs_of({2, 3, 4}, {{{0, 2}}, {{1, 2}}, {{0, 4}}}),
              testing::ElementsAre(Stretch{4, 0, 8}, Stretch{16, 8, 8}));
  EXPECT_THAT(runs_of({2, 3, 4}, {{{0, 2}}, {{0, 3}}, {{2, 2}}}),
              testing::ElementsAre(Stretch{2, 0, 2}, Stretch{6, 2, 2}, Stretch{10, 4, 2}, Stretch{14, 6, 2},
                                   Stretch{18, 8, 2}, Stretch{22, 10, 2}));
  // A rank may have several pieces of a dim: heads of queries, then of keys.
  EXPECT_THAT(runs_of({6, 2}, {{{0, 1}, {3, 2}}, {{0, 2}}}),
              testing::ElementsAre(Stretch{0, 0, 2}, Stretch{6, 2, 4}));
  EXPECT_THAT(runs_of({}, {}), testing::ElementsAre(Stretch{0, 0, 1}));
}

}  // namespace
}  // namespace trireme
