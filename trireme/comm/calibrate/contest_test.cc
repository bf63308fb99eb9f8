#include "trireme/comm/calibrate/contest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace trireme::comm {
namespace {

const std::vector<Choice> kThree = {
    {.algorithm = Algorithm::ring}, {.algorithm = Algorithm::tree}, {.algorithm = Algorithm::butterfly}};

TEST(Contest, BeforeTheFewestRoundsThePredictionHolds) {
  EXPECT_TRUE(Contest({kThree[0]}).decided());
  Contest contest(kThree);
  EXPECT_FALSE(contest.decided());
  for (size_t round = 0; round < Contest::kFewestRounds; ++round) {
    EXPECT_EQ(contest.winner().algorithm, Algorithm::ring);
    contest.play([&](const Choice& way) { return way.algorithm == Algorithm::tree ? 1 : 1.1; });
  }
  EXPECT_EQ(contest.winner().algorithm, Algorithm::tree);
}

TEST(Contest, ARoundThatWasDisturbedDoesNotDecide) {
  Contest contest(kThree);
  for (int round = 0; round < 9; ++round) {
    contest.play([&](const Choice& way) {
      if (way.algorithm == Algorithm::tree) return round % 6 == 0 ? 100.0 : 1.0;
      return way.algorithm == Algorithm::ring ? 1.1 : 1.05;
    });
  }
  EXPECT_EQ(contest.winner().algorithm, Algorithm::tree);
}

TEST(Contest, OfTwoThatAreAsGoodTheSteadierWins) {
  const auto winner = [](double ring_seconds) {
    Contest contest(kThree);
    for (int round = 0; round < 9; ++round) {
      contest.play([&](const Choice& way) {
        if (way.algorithm == Algorithm::tree) return round % 3 == 0 ? 1.4 : 1.0;
        return way.algorithm == Algorithm::ring ? ring_seconds : 1.2;
      });
    }
    return contest.winner().algorithm;
  };
  EXPECT_EQ(winner(1.04), Algorithm::ring);
  EXPECT_EQ(winner(1.06), Algorithm::tree);
}

TEST(Contest, WhatSlowsAllForAWhileIsNotHeldAgainstOne) {
  Contest contest(kThree);
  for (int round = 0; round < 20; ++round) {
    const double machine = round < 12 ? 1 : 3;
    // Disturbed three times, a tree has more long times than short ones: its median alone is the greater.
    const double tree = round < 3 ? 3.5 : machine;
    contest.play([&](const Choice& way) { return way.algorithm == Algorithm::tree ? tree : 1.02 * machine; });
  }
  EXPECT_EQ(contest.winner().algorithm, Algorithm::tree);
}

TEST(Contest, WhoIsFarBehindIsDroppedAfterSomeRounds) {
  Contest contest(kThree);
  std::map<Algorithm, size_t> played;
  for (int round = 0; round < 20; ++round) {
    contest.play([&](const Choice& way) {
      ++played[way.algorithm];
      return way.algorithm == Algorithm::butterfly ? 1.6 : 1.0;
    });
  }
  EXPECT_EQ(played[Algorithm::butterfly], Contest::kFewestRounds);
  EXPECT_EQ(played[Algorithm::tree], 20u);
  EXPECT_FALSE(contest.decided());
}

TEST(Contest, NoneIsAlwaysTheFirst) {
  Contest contest(kThree);
  std::vector<Algorithm> firsts;
  for (int round = 0; round < 3; ++round) {
    bool first = true;
    contest.play([&](const Choice& way) {
      if (first) firsts.push_back(way.algorithm);
      first = false;
      return 1.0;
    });
  }
  EXPECT_THAT(firsts, testing::UnorderedElementsAre(Algorithm::ring, Algorithm::tree, Algorithm::butterfly));
}

}  // namespace
}  // namespace trireme::comm
