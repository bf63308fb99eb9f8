// The predictor against the closed forms where those are exact, and against itself where it extrapolates.
#include "trireme/comm/collective/cost.h"

#include <gtest/gtest.h>

#include <chrono>

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
  Algorithm algorithm;
  Ports ports;
  bool powers_of_two;  // where the closed form is for those alone
};

class ClosedForm : public testing::TestWithParam<Case> {};

TEST_P(ClosedForm, IsWhatTheRunTakes) {
  for (int ranks = 1; ranks <= 24; ++ranks) {
    if (GetParam().powers_of_two && (ranks & (ranks - 1)) != 0) continue;
    for (const size_t chunk : {0, 1000, 100000}) {
      const size_t bytes = chunk * ranks * 16;
      if (bytes == 0 && ranks > 1) continue;  // nothing is sent
      const Formula closed = formula(Collective::all_reduce, GetParam().algorithm, ranks);
      const double expected = formula_seconds(closed, bytes, kLink);
      const double found =
          predicted(GetParam().algorithm, ranks, bytes, kUncut, uniform_costs(kLink, GetParam().ports));
      EXPECT_NEAR(found, expected, 1e-4 * expected) << ranks << " ranks, " << bytes << " bytes";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cost, ClosedForm,
                         testing::Values(Case{Algorithm::ring, Ports::one_each_way, false},
                                         Case{Algorithm::butterfly, Ports::one_each_way, false},
                                         Case{Algorithm::reduce_scatter_gather, Ports::one_each_way, false},
                                         Case{Algorithm::tree, Ports::unlimited, true},
                                         Case{Algorithm::double_tree, Ports::unlimited, true},
                                         Case{Algorithm::naive, Ports::one_each_way, false},
                                         Case{Algorithm::parameter_server, Ports::one_each_way, false},
                                         Case{Algorithm::sharded_parameter_server, Ports::one_each_way,
                                              false},
                                         Case{Algorithm::hierarchical, Ports::one_each_way, false}),
                         [](const auto& instance) { return std::string(name(instance.param.algorithm)); });

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
  costs.transfer = [](int, int, size_t) { return Transfer{1e-6, 50e-6, 1e-6}; };
  const Steps flat = make_steps(Collective::broadcast, Algorithm::naive, 5);
  EXPECT_NEAR(predict_seconds(flat, std::vector<size_t>{8}, kUncut, costs), 3e-6 + 51e-6, 1e-12);
}

TEST(Cost, SlowLinksBetweenHostsFavourHierarchical) {
  Costs costs = uniform_costs(kLink, Ports::one_each_way);
  costs.hosts = {0, 1, 0, 1};  // as an unlucky launcher would place them
  costs.transfer = [hosts = costs.hosts](int from, int to, size_t bytes) {
    const double seconds = 5e-6 + bytes * (hosts[from] == hosts[to] ? 1e-10 : 1e-8);
    return Transfer{seconds, 0, seconds};
  };
  EXPECT_LT(predicted(Algorithm::hierarchical, 4, 1 << 22, 1 << 18, costs),
            0.8 * predicted(Algorithm::ring, 4, 1 << 22, 1 << 18, costs));
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
        const double tolerance = algorithm == Algorithm::double_tree ? 0.2 : 0.08;
        EXPECT_NEAR(predict_seconds(steps, chunks, 1 << 16, costs), all, tolerance * all)
            << name(algorithm) << " of " << ranks;
      }
    }
  }
}

TEST(Cost, IsQuickEnoughToChooseBy) {
  const Costs costs = uniform_costs(kLink, Ports::one);
  double most = 0;
  for (const Algorithm algorithm : algorithms_of(Collective::all_reduce)) {
    const Steps steps = make_steps(Collective::all_reduce, algorithm, 16);
    const auto one = std::chrono::steady_clock::now();
    predict_seconds(steps, equal_chunks(steps, 1 << 22), 1 << 18, costs);
    most = std::max(most, std::chrono::duration<double>(std::chrono::steady_clock::now() - one).count());
  }
  // Near 1 ms; the bound is for a busy machine, and a sanitizer.
  EXPECT_LT(most, 0.1);
  RecordProperty("slowest_microseconds", static_cast<int>(most * 1e6));
}

}  // namespace
}  // namespace trireme::comm
