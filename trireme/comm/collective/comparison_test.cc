// What the comparison of algorithms counts is what is published of them.
#include "trireme/comm/collective/comparison.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "trireme/comm/collective/algorithms.h"
#include "trireme/comm/collective/formula.h"

namespace trireme::comm {
namespace {

constexpr int kRanks = 8;
constexpr size_t kBytes = 8000, kUncut = size_t{1} << 40;
const Link kLink{.alpha_seconds = 1e-5, .beta_seconds_per_byte = 1e-8, .gamma_seconds_per_byte = 1e-9};

std::map<Algorithm, Compared> by_algorithm() {
  std::map<Algorithm, Compared> result;
  for (const Compared& one : compared(Collective::all_reduce, std::vector<int>(kRanks, 0), kBytes, kUncut,
                                      uniform_costs(kLink, Ports::one_each_way)))
    result[one.algorithm] = one;
  return result;
}

TEST(Comparison, HasBytesAndRoundsOfTheFormulas) {
  for (const auto& [algorithm, one] : by_algorithm()) {
    const Formula expected = formula(Collective::all_reduce, algorithm, kRanks);
    EXPECT_EQ(one.rounds, expected.rounds) << name(algorithm);
    EXPECT_DOUBLE_EQ(static_cast<double>(one.busiest_bytes), expected.sent * kBytes) << name(algorithm);
    EXPECT_GE(one.total_bytes, 2 * (kRanks - 1) * kBytes) << name(algorithm);
  }
}

TEST(Comparison, TellsHowManyARankTakesMessagesFrom) {
  const std::map<Algorithm, Compared> found = by_algorithm();
  EXPECT_EQ(found.at(Algorithm::naive).fan_in, kRanks - 1);
  EXPECT_EQ(found.at(Algorithm::parameter_server).fan_in, kRanks - 1);
  EXPECT_EQ(found.at(Algorithm::ring).fan_in, 1);
  EXPECT_EQ(found.at(Algorithm::linear).fan_in, 2);
  EXPECT_EQ(found.at(Algorithm::butterfly).fan_in, 3);
}

// (P-1) (α + nβ + nγ) to the end of the chain, and the messages back.
TEST(Comparison, AChainTakesAsManyMessagesAsThereAreLinksInIt) {
  const Compared chain = by_algorithm().at(Algorithm::linear);
  EXPECT_EQ(chain.total_bytes, 2 * (kRanks - 1) * kBytes);
  const double message = kLink.alpha_seconds + kBytes * kLink.beta_seconds_per_byte;
  EXPECT_NEAR(chain.seconds, (kRanks - 1) * (2 * message + kBytes * kLink.gamma_seconds_per_byte), 1e-9);
}

// Printed for 8 ranks, nβ = 0.5369 s and α = 0.5 ms.
TEST(Comparison, FormsWithoutStepsAreThePublishedOnes) {
  const Link office = parse_emulated_link("office").costs();
  const auto seconds = [&](const Formula& form) { return formula_seconds(form, 64 << 20, office); };
  EXPECT_NEAR(seconds(masters_formula(8, 1)), 8.591, 5e-4);
  EXPECT_NEAR(seconds(masters_formula(8, 2)), 4.296, 5e-4);
  EXPECT_NEAR(seconds(masters_formula(8, 8)), 1.075, 5e-4);
  EXPECT_NEAR(seconds(all_reduce_bound(8)), 0.9410, 5e-5);
}

TEST(Comparison, NoAlgorithmIsBelowTheBound) {
  for (int ranks = 2; ranks <= 33; ++ranks) {
    const Formula bound = all_reduce_bound(ranks);
    for (const Algorithm algorithm : algorithms_of(Collective::all_reduce)) {
      const Formula found = formula(Collective::all_reduce, algorithm, ranks);
      EXPECT_GE(found.messages, bound.messages) << name(algorithm) << " " << ranks;
      EXPECT_GE(found.carried, bound.carried - 1e-9) << name(algorithm) << " " << ranks;
    }
  }
}

// 2 hosts of 4 ranks: a rank sends its like on the other host an eighth of the vector, and the last of a host
// in a ring seven. Where messages inside and across take turns in a rank's sends, some of the former wait.
TEST(Comparison, TwoLevelsWhereThereAreHosts) {
  const std::vector<int> hosts = {0, 0, 0, 0, 1, 1, 1, 1};
  const EmulatedLink link = parse_emulated_link("latency=1us,bandwidth=1Gbit");
  const size_t bytes = 8 << 20;
  for (const Collective collective : {Collective::reduce_scatter, Collective::all_gather}) {
    std::map<Algorithm, Compared> found;
    for (const Compared& one :
         compared(collective, hosts, bytes, /*segment_bytes=*/1 << 14, costs_between_hosts(link, hosts)))
      found[one.algorithm] = one;
    const double vector_seconds = bytes * link.costs().beta_seconds_per_byte;
    EXPECT_NEAR(found.at(Algorithm::ring).seconds, 7.0 / 8 * vector_seconds, 0.02 * vector_seconds);
    EXPECT_GT(found.at(Algorithm::hierarchical).seconds, 0.99 / 8 * vector_seconds);
    EXPECT_LT(found.at(Algorithm::hierarchical).seconds, 2.1 / 8 * vector_seconds);
    EXPECT_EQ(found.at(Algorithm::hierarchical).form.rounds, 5);
  }
  EXPECT_EQ(compared(Collective::gather, hosts, 64, kUncut, costs_over(link)).size(), 2);  // without
}

}  // namespace
}  // namespace trireme::comm
