// The exact solver against trying everything, on random graphs.
#include "trireme/planner/intra.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <random>

#include "trireme/base/error.h"

namespace trireme::planner {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

enum class Bound { kNone, kTight };

IntraProblem random_problem(uint32_t seed, Bound bound) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  IntraProblem problem;
  const int nodes = 1 + below(8);
  int64_t most = 0, least = 0;
  for (int n = 0; n < nodes; ++n) {
    IntraProblem::Node& node = problem.nodes.emplace_back();
    const int ways = 1 + below(4);
    for (int k = 0; k < ways; ++k) {
      // Few values, so that many solutions cost the same.
      node.cost.push_back(seed % 3 == 0 ? below(3) : below(1000) / 7.0);
      node.use.push_back(below(100));
    }
    most += std::ranges::max(node.use);
    least += std::ranges::min(node.use);
  }
  for (int e = nodes > 1 ? below(2 * nodes) : 0; e > 0; --e) {
    const int from = below(nodes), to = below(nodes);
    if (from == to) continue;
    IntraProblem::Edge& edge = problem.edges.emplace_back(IntraProblem::Edge{from, to, {}});
    for (size_t i = 0; i < problem.nodes[from].cost.size() * problem.nodes[to].cost.size(); ++i)
      edge.cost.push_back(below(8) == 0 ? kNever : seed % 3 == 0 ? below(3) : below(1000) / 3.0);
  }
  if (bound == Bound::kTight)
    problem.bound = least + (most - least) * below(100) / 100 - (below(20) == 0 ? 50 : 0);
  return problem;
}

void expect_like_enumeration(const IntraProblem& problem, uint32_t seed) {
  const std::optional<IntraSolution> found = solve(problem), wanted = solve_by_enumeration(problem);
  ASSERT_EQ(found.has_value(), wanted.has_value()) << "seed " << seed;
  if (!found) return;
  EXPECT_NEAR(found->cost, wanted->cost, 1e-9 * (1 + wanted->cost)) << "seed " << seed;
  EXPECT_EQ(found->least_cost, found->cost);
  if (problem.bound) {
    EXPECT_LE(found->use, *problem.bound);
  }
  EXPECT_EQ(solve(problem)->way, found->way) << "seed " << seed;
}

TEST(Intra, EqualsEnumerationOnRandomGraphs) {
  for (uint32_t seed = 0; seed < 400; ++seed)
    expect_like_enumeration(random_problem(seed, Bound::kNone), seed);
}

TEST(Intra, EqualsEnumerationWithABound) {
  for (uint32_t seed = 0; seed < 400; ++seed)
    expect_like_enumeration(random_problem(seed, Bound::kTight), seed);
}

// Four ways a node, each with an edge to the next and to the one after that, as residual sums have.
IntraProblem ladder(int nodes) {
  std::mt19937 random(7);
  IntraProblem problem;
  for (int n = 0; n < nodes; ++n) {
    IntraProblem::Node& node = problem.nodes.emplace_back();
    for (int k = 0; k < 4; ++k) {
      node.cost.push_back(static_cast<double>(random() % 1000));
      node.use.push_back(static_cast<int64_t>(random() % 1000));
    }
    for (const int back : {1, 2}) {
      if (n < back) continue;
      IntraProblem::Edge& edge = problem.edges.emplace_back(IntraProblem::Edge{n - back, n, {}});
      for (int i = 0; i < 16; ++i) edge.cost.push_back(static_cast<double>(random() % 1000));
    }
  }
  return problem;
}

TEST(Intra, LongGraphsAreSolvedByElimination) {
  const IntraProblem problem = ladder(2000);
  const std::optional<IntraSolution> found = solve(problem, {.most_steps = 2001});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->least_cost, found->cost);
}

TEST(Intra, ASearchThatIsCutShortSaysHowFarItMayBe) {
  IntraProblem problem = ladder(60);
  problem.bound = solve(problem)->use * 6 / 10;
  const std::optional<IntraSolution> found = solve(problem, {.most_steps = 200});
  ASSERT_TRUE(found);
  EXPECT_LE(found->use, *problem.bound);
  EXPECT_LE(found->least_cost, found->cost);
  // The price on use brings the bound near.
  EXPECT_GT(found->least_cost, 0.8 * found->cost);
}

TEST(Intra, RefusesWhatIsNoProblem) {
  EXPECT_THROW(solve({.nodes = {{}}}), Error);
  EXPECT_THROW(solve({.nodes = {{{1}, {}}}, .edges = {{0, 1, {1}}}}), Error);
  EXPECT_THROW(solve({.nodes = {{{1}, {}}, {{1, 2}, {}}}, .edges = {{0, 1, {1}}}}), Error);
}

}  // namespace
}  // namespace trireme::planner
