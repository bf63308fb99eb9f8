// The predictor against the closed forms where those are exact, and against itself where it extrapolates.
#include "trireme/comm/collective/cost.h"

#include <gtest/gtest.h>

#include "tests/support/times.h"
#include "trireme/comm/collective/algorithms.h"
#include "trireme/comm/collective/formula.h"
#include "trireme/comm/collective/timed_run.h"

namespace trireme::comm {
namespace {

constexpr Link kLink{.alpha_seconds = 5e-6, .beta_seconds_per_byte = 1e-9, .gamma_seconds_per_byte = 3e-10};
constexpr size_t kUncut = size_t{1} << 40;

std::vector<size_t> equal_chunks(const Steps& steps, size_t bytes) {
  return std::vector<size_t>(steps.chunks(), bytes / steps.chunks());
}

double predicted(Algorithm algorithm, int ranks, size_t bytes, size_t segment_bytes, const Costs& costs) {
  const Steps steps = make_steps(Collective::all_reduce, algorithm, ranks, 0, costs.hosts);
  return predict_seconds(steps, equal_chunks(steps, bytes), segment_bytes, costs);
}

struct Case {
  Collective collective;
  Algorithm algorithm;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (int c = 0; c < static_cast<int>(Collective::message); ++c) {
    const auto collective = static_cast<Collective>(c);
    for (const Algorithm algorithm : algorithms_of(collective)) cases.push_back({collective, algorithm});
  }
  return cases;
}

class ClosedForm : public testing::TestWithParam<Case> {};

TEST_P(ClosedForm, IsWhatTheRunTakes) {
  const auto [collective, algorithm] = GetParam();
  const bool tree = algorithm == Algorithm::tree || algorithm == Algorithm::double_tree;
  const bool folds_parts = algorithm == Algorithm::butterfly &&
                           (collective == Collective::reduce_scatter || collective == Collective::all_gather);
  const Costs costs = uniform_costs(kLink, tree ? Ports::unlimited : Ports::one_each_way);
  for (int ranks = 1; ranks <= 24; ++ranks) {
    // In a tree that is not full, not everybody has two children to wait for; folded into parts, some ranks
    // have two and some one.
    if ((tree || folds_parts) && (ranks & (ranks - 1)) != 0) continue;
    for (const size_t bytes : {ranks * 16000, ranks * 1600000}) {
      const Steps steps = make_steps(collective, algorithm, ranks);
      const size_t chunk = collective == Collective::all_to_all ? bytes / ranks : bytes / steps.chunks();
      const std::vector<size_t> chunks(steps.chunks(), chunk);
      const double expected = formula_seconds(formula(collective, algorithm, ranks), bytes, kLink);
      EXPECT_NEAR(predict_seconds(steps, chunks, kUncut, costs), expected, 1e-4 * expected)
          << ranks << " ranks, " << bytes << " bytes";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cost, ClosedForm, testing::ValuesIn(all_cases()), [](const auto& instance) {
  return std::string(name(instance.param.collective)) + "_" + std::string(name(instance.param.algorithm));
});

TEST(Cost, OnePortForBothWaysDoublesAnExchange) {
  const size_t bytes = 1 << 20;
  const Link link{.alpha_seconds = 1e-6, .beta_seconds_per_byte = 1e-9};
  const double each_way =
      predicted(Algorithm::butterfly, 2, bytes, kUncut, uniform_costs(link, Ports::one_each_way));
  const double one = predicted(Algorithm::butterfly, 2, bytes, kUncut, uniform_costs(link, Ports::one));
  EXPECT_NEAR(one, 2 * each_way, 1e-12);
}

TEST(Cost, CoresAreShared) {
  // Four ranks that are busy all the time, on two cores: twice the time. On four: no difference.
  Costs costs = uniform_costs(kLink, Ports::one);
  const double alone = predicted(Algorithm::ring, 4, 1 << 20, kUncut, costs);
  costs.cores_per_host = 2;
  EXPECT_NEAR(predicted(Algorithm::ring, 4, 1 << 20, kUncut, costs), 2 * alone, 0.1 * alone);
  costs.cores_per_host = 4;
  EXPECT_DOUBLE_EQ(predicted(Algorithm::ring, 4, 1 << 20, kUncut, costs), alone);
  costs.cores_per_host = 2;
  costs.hosts = {0, 0, 1, 1};
  EXPECT_DOUBLE_EQ(predicted(Algorithm::ring, 4, 1 << 20, kUncut, costs), alone);
}

TEST(Cost, SegmentsPipelineAChain) {
  // Rank 7 gets the last of 16 segments 7 messages after the root has sent it.
  const Steps chain = make_steps(Collective::broadcast, Algorithm::ring, 8);
  const size_t segment = 1 << 16;
  const std::vector<size_t> bytes = {16 * segment};
  const double message = kLink.alpha_seconds + segment * kLink.beta_seconds_per_byte;
  EXPECT_NEAR(predict_seconds(chain, bytes, segment, uniform_costs(kLink, Ports::one_each_way)),
              (16 + 6) * message, 1e-12);
}

TEST(Cost, DelayIsNobodysTime) {
  // A flat broadcast: the root is busy for 1 µs a message, each then travels for 50 µs and takes 1 µs.
  Costs costs = uniform_costs({}, Ports::one);
  costs.transfer = [](int, int, size_t, bool) { return Transfer{1e-6, 0, 50e-6, 1e-6}; };
  const Steps flat = make_steps(Collective::broadcast, Algorithm::naive, 5);
  EXPECT_NEAR(predict_seconds(flat, std::vector<size_t>{8}, kUncut, costs), 3e-6 + 51e-6, 1e-12);
}

TEST(Cost, WhatIsTakenBesideItsPlaceIsAddedLater) {
  // A ring adds as it takes; in a butterfly the place is still being sent, so adding is a pass of its own.
  Costs costs = uniform_costs({}, Ports::one);
  costs.transfer = [](int, int, size_t, bool) { return Transfer{0, 0, 0, 10e-6}; };
  costs.add_seconds = [](size_t) { return 1e-6; };
  costs.reduce_seconds = [](size_t) { return 5e-6; };
  EXPECT_NEAR(predicted(Algorithm::ring, 2, 1 << 20, kUncut, costs), 10e-6 + 1e-6 + 10e-6, 1e-12);
  EXPECT_NEAR(predicted(Algorithm::butterfly, 2, 1 << 20, kUncut, costs), 10e-6 + 5e-6, 1e-12);
}

TEST(Cost, ASendKeepsItsTurn) {
  // Up and down a tree of two: the root takes for 6 µs and adds for 2, the leaf takes for 6; what the root
  // has added goes down while it takes the next, so the root is never idle.
  Costs costs = uniform_costs({}, Ports::one);
  costs.transfer = [](int, int, size_t, bool) { return Transfer{0, 0, 0, 6e-6}; };
  costs.add_seconds = [](size_t) { return 2e-6; };
  EXPECT_NEAR(predicted(Algorithm::tree, 2, 32 << 10, 1 << 10, costs), 32 * 8e-6, 4 * 8e-6);
}

TEST(Cost, WhatIsHandedOnAtOnceHasItsOwnPrice) {
  // The root of a tree of two only sends what it has just added, so all messages are handed on or will be. In
  // a ring each rank begins with its own.
  Costs costs = uniform_costs({}, Ports::one);
  costs.transfer = [](int, int, size_t, bool handed_on) {
    return handed_on ? Transfer{2e-6, 0, 0, 4e-6} : Transfer{4e-6, 0, 0, 6e-6};
  };
  EXPECT_NEAR(predicted(Algorithm::tree, 2, 64 << 10, 1 << 10, costs), 64 * 6e-6, 4 * 6e-6);
  EXPECT_NEAR(predicted(Algorithm::ring, 2, 64 << 10, 1 << 10, costs), 64 * 10e-6, 4 * 10e-6);
  const Steps tree = make_steps(Collective::all_reduce, Algorithm::tree, 2);
  EXPECT_LE(busiest_seconds(tree, equal_chunks(tree, 64 << 10), 1 << 10, costs), (1 + 1e-9) * 64 * 6e-6);
  // Broadcast: what the root has from the start is not handed on.
  const Steps flat = make_steps(Collective::broadcast, Algorithm::naive, 2);
  EXPECT_NEAR(predict_seconds(flat, std::vector<size_t>{8}, kUncut, costs), 6e-6, 1e-12);
}

TEST(Cost, RanksOfAHostShareItsLink) {
  // Rank 0 sends to 2 and 1 to 3, both across: one after the other, though all four ranks are free.
  Costs costs = uniform_costs({}, Ports::one);
  costs.hosts = {0, 0, 1, 1};
  costs.transfer = [](int, int, size_t, bool) { return Transfer{1e-6, 10e-6, 10e-6, 1e-6}; };
  Steps steps(4, 1);
  for (const int rank : {0, 1}) steps.send(rank, rank + 2, 0, Action::copy);
  EXPECT_NEAR(predict_seconds(steps, std::vector<size_t>{8}, kUncut, costs), 21e-6, 1e-12);
}

TEST(Cost, ABarrierIsMessagesWithoutBytes) {
  const Steps barrier = make_steps(Collective::barrier, Algorithm::butterfly, 6);
  EXPECT_NEAR(predict_seconds(barrier, std::vector<size_t>{0}, 1, uniform_costs(kLink, Ports::one_each_way)),
              3 * kLink.alpha_seconds, 1e-12);
}

TEST(Cost, ExtrapolatesManySegments) {
  for (const Algorithm algorithm : algorithms_of(Collective::all_reduce)) {
    for (const int ranks : {2, 4, 7, 16}) {
      for (const Ports ports : {Ports::one, Ports::one_each_way}) {
        const Costs costs = uniform_costs(kLink, ports);
        const Steps steps = make_steps(Collective::all_reduce, algorithm, ranks);
        const std::vector<size_t> chunks = equal_chunks(steps, 16 << 20);
        const double all = TimedRun(steps, chunks, 1 << 16, costs).run();
        // Where the two trees meet, waiting grows with the length of the vector.
        const double tolerance = algorithm == Algorithm::double_tree ? 0.2 : 0.1;
        EXPECT_NEAR(predict_seconds(steps, chunks, 1 << 16, costs), all, tolerance * all)
            << name(algorithm) << " of " << ranks;
      }
    }
  }
}

TEST(Cost, IsNeverLessThanWhatTheBusiestRankDoes) {
  for (const Algorithm algorithm : algorithms_of(Collective::all_reduce)) {
    for (const Ports ports : {Ports::one, Ports::one_each_way}) {
      for (const int ranks : {1, 2, 5, 8}) {
        const Costs costs = uniform_costs(kLink, ports);
        const Steps steps = make_steps(Collective::all_reduce, algorithm, ranks);
        const std::vector<size_t> chunks = equal_chunks(steps, 1 << 20);
        const double busiest = busiest_seconds(steps, chunks, 1 << 16, costs);
        EXPECT_LE(busiest, (1 + 1e-9) * predict_seconds(steps, chunks, 1 << 16, costs)) << name(algorithm);
        EXPECT_EQ(busiest > 0, ranks > 1);
      }
    }
  }
}

TEST(Cost, IsQuickEnoughToChooseBy) {
  const Costs costs = uniform_costs(kLink, Ports::one);
  double most = 0;
  for (const Algorithm algorithm : algorithms_of(Collective::all_reduce)) {
    const Steps steps = make_steps(Collective::all_reduce, algorithm, 16);
    const double begin = processor_seconds();
    predict_seconds(steps, equal_chunks(steps, 1 << 22), 1 << 18, costs);
    most = std::max(most, processor_seconds() - begin);
  }
  // Near 1 ms; the bound is for a sanitizer.
  EXPECT_LT(most, 0.1);
  RecordProperty("slowest_microseconds", static_cast<int>(most * 1e6));
}

}  // namespace
}  // namespace trireme::comm
