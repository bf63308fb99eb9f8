#include <gtest/gtest.h>

#include "trireme/comm/collective/algorithms.h"
#include "trireme/comm/collective/step_order.h"

namespace trireme::comm {
namespace {

// How many receives of a rank there are, and how many of them are in turn.
struct Tally {
  int receives = 0;
  int in_turn = 0;
};

Tally tally(Algorithm algorithm, int ranks, int rank) {
  const Steps steps = make_steps(Collective::all_reduce, algorithm, ranks);
  const std::vector<bool> in_turn = receives_in_turn(steps, rank);
  Tally result;
  for (size_t i = 0; i < in_turn.size(); ++i) {
    result.receives += steps.of(rank)[i].kind == Step::Kind::receive;
    result.in_turn += in_turn[i];
  }
  return result;
}

TEST(InTurn, AllOfThemWhereNobodyExchangesOneChunk) {
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::tree, Algorithm::double_tree,
                                    Algorithm::reduce_scatter_gather, Algorithm::parameter_server}) {
    for (int ranks = 2; ranks <= 17; ++ranks) {
      for (int rank = 0; rank < ranks; ++rank) {
        const Tally found = tally(algorithm, ranks, rank);
        EXPECT_EQ(found.in_turn, found.receives)
            << name(algorithm) << ' ' << ranks << " ranks, rank " << rank;
      }
    }
  }
}

// Both send the whole vector before either has received: waiting for the place would be waiting for ever.
TEST(InTurn, ExchangesOfTheSameChunkAlwaysDo) {
  for (const int ranks : {2, 4, 8}) {
    for (int rank = 0; rank < ranks; ++rank) {
      const Tally found = tally(Algorithm::butterfly, ranks, rank);
      EXPECT_GT(found.receives, 0);
      EXPECT_EQ(found.in_turn, 0) << ranks << " ranks, rank " << rank;
    }
  }
}

// Everybody hands its chunk on and gets another in the same place: a circle of three.
TEST(InTurn, CirclesOfMoreThanTwoAreSeen) {
  Steps steps(3, 1);
  steps.each([&](int rank) { steps.send(rank, rank + 1, 0, Action::copy); });
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(receives_in_turn(steps, rank), (std::vector<bool>{false, false}));
  }
}

// The same one after another: the last to send has nothing to wait for.
TEST(InTurn, ChainsAreNoCircles) {
  Steps steps(3, 1);
  steps.send(2, 0, 0, Action::copy);
  steps.send(1, 2, 0, Action::copy);
  steps.send(0, 1, 0, Action::copy);
  EXPECT_EQ(receives_in_turn(steps, 0), (std::vector<bool>{true, false}));
  EXPECT_EQ(receives_in_turn(steps, 1), (std::vector<bool>{false, true}));
  EXPECT_EQ(receives_in_turn(steps, 2), (std::vector<bool>{false, true}));
}

}  // namespace
}  // namespace trireme::comm
