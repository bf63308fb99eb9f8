// The predictor against the closed forms where those are exact, and against itself where it extrapolates.
#include "trireme/comm/collective/cost.h"

#include <gtest/gtest.h>

#include "tests/support/collective_cases.h"
#include "trireme/comm/collective/algorithms.h"
#include "trireme/comm/collective/formula.h"
#include "trireme/comm/collective/timed_run.h"

namespace trireme::comm {
namespace {

constexpr Link kFastLink{
    .alpha_seconds = 5e-6, .beta_seconds_per_byte = 1e-9, .gamma_seconds_per_byte = 3e-10};
constexpr size_t kWhole = size_t{1} << 40;

std::vector<size_t> equal_chunks(const Steps& steps, size_t bytes) {
  return std::vector<size_t>(steps.chunks(), bytes / steps.chunks());
}

// Of all_to_all, `bytes` are what a rank gives.
std::vector<size_t> equal_chunks(Collective collective, const Steps& steps, size_t bytes) {
  if (collective != Collective::all_to_all) return equal_chunks(steps, bytes);
  return std::vector<size_t>(steps.chunks(), bytes / steps.ranks());
}

double predicted(Algorithm algorithm, int ranks, size_t bytes, size_t segment_bytes, const Costs& costs) {
  const Steps steps = make_steps(Collective::all_reduce, algorithm, ranks);
  return predict_seconds(steps, equal_chunks(steps, bytes), segment_bytes, costs);
}

class ClosedForm : public testing::TestWithParam<Case> {};

TEST_P(ClosedForm, IsWhatTheRunTakes) {
  const auto [collective, algorithm] = GetParam();
  const bool tree = algorithm == Algorithm::tree || algorithm == Algorithm::double_tree;
  const bool folds_parts = algorithm == Algorithm::butterfly &&
                           (collective == Collective::reduce_scatter || collective == Collective::all_gather);
  const Costs costs = uniform_costs(kFastLink, tree ? Ports::unlimited : Ports::one_each_way);
  for (int ranks = 1; ranks <= 24; ++ranks) {
    // In a tree that is not full, not everybody has two children to wait for; folded into parts, some ranks
    // have two and some one.
    if ((tree || folds_parts) && (ranks & (ranks - 1)) != 0) continue;
    for (const size_t bytes : {ranks * 16000, ranks * 1600000}) {
      const Steps steps = make_steps(collective, algorithm, ranks);
      const std::vector<size_t> chunks = equal_chunks(collective, steps, bytes);
      const double expected = formula_seconds(formula(collective, algorithm, ranks), bytes, kFastLink);
      EXPECT_NEAR(predict_seconds(steps, chunks, kWhole, costs), expected, 1e-4 * expected)
          << ranks << " ranks, " << bytes << " bytes";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cost, ClosedForm, testing::ValuesIn(all_cases()), [](const auto& instance) {
  return std::string(name(instance.param.collective)) + "_" + std::string(name(instance.param.algorithm));
});

// Links alike, so that one closed form holds for both levels. Messages inside that could go early may keep
// one across waiting, so that a run takes one message more at most.
TEST(Cost, TwoLevelsTakeWhatTheirClosedFormSays) {
  for (const auto& [collective, algorithm] : all_cases()) {
    if (algorithm != Algorithm::hierarchical) continue;
    for (const auto& [host_count, on_each] : {std::pair(2, 2), {2, 4}, {3, 3}, {4, 8}, {8, 2}}) {
      const int ranks = host_count * on_each;
      std::vector<int> hosts(ranks);
      for (int rank = 0; rank < ranks; ++rank) hosts[rank] = rank / on_each;
      for (const size_t bytes : {ranks * 16000, ranks * 1600000}) {
        SCOPED_TRACE(testing::Message() << name(collective) << ", " << host_count << " hosts of " << on_each
                                        << ", " << bytes << " bytes");
        const Steps steps = make_steps(collective, algorithm, ranks, 0, hosts);
        const std::vector<size_t> chunks = equal_chunks(collective, steps, bytes);
        const double message =
            kFastLink.alpha_seconds +
            static_cast<double>(longest_message_bytes(steps, chunks)) * kFastLink.beta_seconds_per_byte;
        const double expected =
            formula_seconds(formula(collective, algorithm, ranks, hosts), bytes, kFastLink);
        const double taken =
            predict_seconds(steps, chunks, kWhole, uniform_costs(kFastLink, Ports::one_each_way));
        EXPECT_GE(taken, 0.9999 * expected);
        EXPECT_LE(taken, 1.0001 * (expected + message));
      }
    }
  }
}

TEST(Cost, OnePortForBothWaysDoublesAnExchange) {
  const size_t bytes = 1 << 20;
  const Link link{.alpha_seconds = 1e-6, .beta_seconds_per_byte = 1e-9};
  const double each_way =
      predicted(Algorithm::butterfly, 2, bytes, kWhole, uniform_costs(link, Ports::one_each_way));
  const double one = predicted(Algorithm::butterfly, 2, bytes, kWhole, uniform_costs(link, Ports::one));
  EXPECT_NEAR(one, 2 * each_way, 1e-12);
}

TEST(Cost, SegmentsPipelineAChain) {
  // Rank 7 gets the last of 16 segments 7 messages after the root has sent it.
  const Steps chain = make_steps(Collective::broadcast, Algorithm::ring, 8);
  const size_t segment = 1 << 16;
  const std::vector<size_t> bytes = {16 * segment};
  const double message = kFastLink.alpha_seconds + segment * kFastLink.beta_seconds_per_byte;
  EXPECT_NEAR(predict_seconds(chain, bytes, segment, uniform_costs(kFastLink, Ports::one_each_way)),
              (16 + 6) * message, 1e-12);
}

TEST(Cost, DelayIsNobodysTime) {
  // A flat broadcast: the root is busy for 1 µs a message, each then travels for 50 µs and takes 1 µs.
  Costs costs = uniform_costs({}, Ports::one);
  costs.transfer = [](int, int, size_t) { return Transfer{1e-6, 50e-6, 1e-6}; };
  const Steps flat = make_steps(Collective::broadcast, Algorithm::naive, 5);
  EXPECT_NEAR(predict_seconds(flat, std::vector<size_t>{8}, kWhole, costs), 3e-6 + 51e-6, 1e-12);
}

TEST(Cost, ASendKeepsItsTurn) {
  // Up and down a tree of two: the root takes for 6 µs and adds for 2, the leaf takes for 6; what the root
  // has added goes down while it takes the next, so the root is never idle.
  Costs costs = uniform_costs({}, Ports::one);
  costs.transfer = [](int, int, size_t) { return Transfer{0, 0, 6e-6}; };
  costs.reduce_seconds = [](size_t) { return 2e-6; };
  EXPECT_NEAR(predicted(Algorithm::tree, 2, 32 << 10, 1 << 10, costs), 32 * 8e-6, 4 * 8e-6);
}

TEST(Cost, ABarrierIsMessagesWithoutBytes) {
  const Steps barrier = make_steps(Collective::barrier, Algorithm::butterfly, 6);
  EXPECT_NEAR(
      predict_seconds(barrier, std::vector<size_t>{0}, 1, uniform_costs(kFastLink, Ports::one_each_way)),
      3 * kFastLink.alpha_seconds, 1e-12);
}

TEST(Cost, ExtrapolatesManySegments) {
  for (const Algorithm algorithm : algorithms_of(Collective::all_reduce)) {
    for (const int ranks : {2, 4, 7, 16}) {
      for (const Ports ports : {Ports::one, Ports::one_each_way}) {
        const Costs costs = uniform_costs(kFastLink, ports);
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

}  // namespace
}  // namespace trireme::comm
