// What the comparison of algorithms counts is what is published of them.
#include "trireme/comm/collective/comparison.h"

#include <gtest/gtest.h>

#include <map>

#include "trireme/comm/collective/formula.h"

namespace trireme::comm {
namespace {

constexpr int kRanks = 8;
constexpr size_t kBytes = 8000, kUncut = size_t{1} << 40;
const Link kLink{.alpha_seconds = 1e-5, .beta_seconds_per_byte = 1e-8, .gamma_seconds_per_byte = 1e-9};

std::map<Algorithm, Compared> by_algorithm() {
  std::map<Algorithm, Compared> result;
  for (const Compared& one :
       compared(Collective::all_reduce, kRanks, kBytes, kUncut, uniform_costs(kLink, Ports::one_each_way)))
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

}  // namespace
}  // namespace trireme::comm
