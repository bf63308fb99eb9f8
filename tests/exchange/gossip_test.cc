// Ranks that mix weights with their neighbours in every step, against the same written out in double
// precision for all ranks at once; what all have together is only changed by their steps; programs are sound
// and send what they say; a run that goes on has the bits of one that never stopped (checkpoint_test.cc).
#include "trireme/exchange/gossip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/exchange/agreed_weights.h"
#include "tests/exchange/local_ranks.h"
#include "trireme/ops/table.h"
#include "trireme/program/text.h"
#include "trireme/program/verify.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using Doubles = std::vector<double>;

TEST(GossipGraph, HasTheNeighboursThatItSays) {
  EXPECT_THAT(neighbours(GossipGraph::kRing, 5, 0), ElementsAre(1, 4));
  EXPECT_THAT(neighbours(GossipGraph::kRing, 2, 1), ElementsAre(0));
  EXPECT_THAT(neighbours(GossipGraph::kTorus, 12, 0), ElementsAre(1, 3, 4, 8));
  EXPECT_THAT(neighbours(GossipGraph::kTorus, 6, 4), ElementsAre(1, 3, 5));
  EXPECT_THAT(neighbours(GossipGraph::kExponential, 8, 0), ElementsAre(1, 2, 4, 6, 7));
  EXPECT_THAT(push_distances(GossipGraph::kExponential, 6), ElementsAre(1, 2, 4));
}

// So that shares that are equal on all ranks leave the sum as it is.
TEST(GossipGraph, IsEvenAndGoesBothWays) {
  for (const GossipGraph graph : {GossipGraph::kRing, GossipGraph::kTorus, GossipGraph::kExponential}) {
    for (int ranks = 2; ranks <= 40; ++ranks) {
      const size_t degree = neighbours(graph, ranks, 0).size();
      for (int rank = 0; rank < ranks; ++rank) {
        const std::vector<int> around = neighbours(graph, ranks, rank);
        ASSERT_EQ(around.size(), degree);
        for (const int other : around) {
          ASSERT_NE(other, rank);
          const std::vector<int> back = neighbours(graph, ranks, other);
          ASSERT_NE(std::ranges::find(back, rank), back.end()) << rank << " and " << other << " of " << ranks;
        }
      }
    }
  }
}

struct Case {
  std::string name, exchange;
  int ranks;
  bool pushes = false;
  GossipGraph graph = GossipGraph::kRing;
  double momentum = 0;
};

std::vector<Case> cases() {
  using enum GossipGraph;
  return {
      {"ring", R"("d_psgd")", 4},
      {"pair", R"("d_psgd")", 2},
      {"ring_momentum", R"({"method": "d_psgd", "graph": "ring"})", 4, false, kRing, 0.9},
      {"torus", R"({"method": "d_psgd", "graph": "torus"})", 6, false, kTorus},
      {"exponential", R"({"method": "d_psgd", "graph": "exponential"})", 6, false, kExponential},
      {"push_exponential", R"("sgp")", 6, true, kExponential},
      {"push_ring", R"({"method": "sgp", "graph": "ring"})", 3, true, kRing},
      {"push_momentum", R"("sgp")", 4, true, kExponential, 0.9},
  };
}

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.exchange << " of " << one.ranks << " ranks";
}

Training training_for(const Case& how) {
  Training training = small_mlp();
  training.steps = 9;
  training.rate = 0.3;
  if (how.momentum > 0) {
    training.optim.kind = "momentum";
    training.optim.momentum = how.momentum;
  }
  return training;
}

Plan plan_for(const Case& how) {
  return plan_of(fmt::format("data:{}", how.ranks), how.exchange);
}

class Gossip : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, Gossip, ::testing::ValuesIn(cases()),
                         [](const auto& tested) { return tested.param.name; });

TEST_P(Gossip, IsWhatItSaysAndKeepsTheMean) {
  const Training training = training_for(GetParam());
  const Plan plan = plan_for(GetParam());
  const LocalRun run = run_of(plan, training);
  bool apart = false;
  for (const auto& [name, start] : run.start) {
    AgreedWeights reference(plan.agreement, Role::kParameter, training.optim, start, plan.mesh.ranks());
    Doubles together(start.size());  // that steps alone change
    Doubles velocity(start.size(), 0);
    for (size_t i = 0; i < start.size(); ++i) together[i] = GetParam().ranks * static_cast<double>(start[i]);
    for (size_t step = 0; step < run.steps.size(); ++step) {
      const std::vector<Floats>&gradients = run.steps[step].gradients.at(name),
            &after = run.steps[step].after.at(name);
      reference.advance(static_cast<int64_t>(step) + 1, gradients, run.steps[step].counts, training.rate);
      for (size_t i = 0; i < start.size(); ++i) {
        double all = 0;
        for (const Floats& of_rank : gradients) all += static_cast<double>(of_rank[i]);
        velocity[i] = GetParam().momentum * velocity[i] + all;
        together[i] -= training.rate * velocity[i];
        double sum = 0;
        for (size_t r = 0; r < after.size(); ++r) {
          sum += static_cast<double>(after[r][i]);
          apart |= after[r][i] != after[0][i];
          ASSERT_NEAR(static_cast<double>(after[r][i]), reference.of_rank(r)[i], 3e-6)
              << name << " of rank " << r << ", step " << step + 1 << ", element " << i;
        }
        ASSERT_NEAR(sum, together[i], 3e-6 * GetParam().ranks) << name << ", step " << step + 1;
        ASSERT_NEAR(reference.sum(i), together[i], 1e-9);
      }
    }
  }
  EXPECT_TRUE(apart);
}

// Each rank has the running statistics of its own rows, mixed as weights are.
TEST_P(Gossip, MixesRunningStatistics) {
  Training training = small_resnet();
  training.steps = 6;
  training.rate = 0.03;
  const Plan plan = plan_for(GetParam());
  const LocalRun run = run_of(plan, training);
  for (const auto& [name, of_ranks] : run.steps[0].statistics) {
    AgreedWeights reference(plan.agreement, Role::kBuffer, training.optim, of_ranks[0], plan.mesh.ranks());
    for (size_t step = 0; step < run.steps.size(); ++step) {
      const std::vector<Floats>&made = run.steps[step].made.at(name),
            &after = run.steps[step].statistics.at(name);
      EXPECT_NE(made[0], made[1]) << name;
      reference.advance_statistics(static_cast<int64_t>(step) + 1, made, run.steps[step].counts);
      for (size_t r = 0; r < after.size(); ++r) {
        for (size_t i = 0; i < after[r].size(); ++i)
          ASSERT_NEAR(static_cast<double>(after[r][i]), reference.of_rank(r)[i], 3e-6)
              << name << " of rank " << r << ", step " << step + 1 << ", element " << i;
      }
    }
  }
}

TEST_P(Gossip, HasSoundProgramsThatSendWhatTheySay) {
  Training training = training_for(GetParam());
  training.steps = 4;
  const Plan plan = plan_for(GetParam());
  const std::unique_ptr<Device> device = make_cpu_device(1);
  std::vector<Program> ranks;
  for (int rank = 0; rank < GetParam().ranks; ++rank)
    ranks.push_back(step_program(training.model, training.train, training.optim, training.shape, *device,
                                 {plan, rank, nullptr}));
  verify(ranks);
  EXPECT_EQ(print(parse_program(print(ranks[1]), ops())), print(ranks[1]));
  const LocalRun run = run_of(plan, training);
  int64_t elements = 0;
  for (const auto& [name, values] : run.start) elements += std::ssize(values);
  const size_t degree = neighbours(GetParam().graph, GetParam().ranks, 0).size();
  const double formula = GetParam().pushes
                             ? 4.0 * static_cast<double>(elements) + 4
                             : 4.0 * static_cast<double>(elements) * static_cast<double>(degree);
  EXPECT_EQ(bytes_sent_in_step(ranks[0]), formula);
  for (const LocalStep& step : run.steps) {
    for (const uint64_t sent : step.bytes_sent) EXPECT_EQ(static_cast<double>(sent), formula);
  }
}

// A rank that hears from two at a time has half of its link for each, and the ranks that wait for its senders
// wait longer.
TEST_P(Gossip, NobodyHearsFromTwoAtATime) {
  const Training training = training_for(GetParam());
  const Plan plan = plan_for(GetParam());
  const std::unique_ptr<Device> device = make_cpu_device(1);
  std::map<std::pair<std::string, size_t>, std::multiset<int>> receivers;  // by list and number of its send
  for (int rank = 0; rank < GetParam().ranks; ++rank) {
    const Program program = step_program(training.model, training.train, training.optim, training.shape,
                                         *device, {plan, rank, nullptr});
    for (const ActionList& list : program.lists) {
      size_t sent = 0;
      for (const Action& action : list.actions) {
        if (action.kind == Action::Kind::kSend) receivers[{list.name, sent++}].insert(action.peer);
      }
    }
  }
  EXPECT_FALSE(receivers.empty());
  for (const auto& [send, ranks] : receivers) {
    EXPECT_EQ(std::ssize(ranks), GetParam().ranks);
    for (const int rank : ranks) EXPECT_EQ(ranks.count(rank), 1u) << "rank " << rank << " in " << send.first;
  }
}

// Where each has all others for neighbours, the next weights are the mean with a step each.
TEST(GossipOfAll, IsTheMeanBeforeEachStep) {
  Training training = small_mlp();
  training.steps = 6;
  const LocalRun run = run_of(plan_of("data:3", R"("d_psgd")"), training);
  for (size_t step = 1; step < run.steps.size(); ++step) {
    for (const auto& [name, after] : run.steps[step].after) {
      const std::vector<Floats>& before = run.steps[step - 1].after.at(name);
      for (size_t i = 0; i < after[0].size(); ++i) {
        const double mean = (static_cast<double>(before[0][i]) + before[1][i] + before[2][i]) / 3;
        for (size_t r = 0; r < 3; ++r)
          ASSERT_NEAR(after[r][i], mean - training.rate * run.steps[step].gradients.at(name)[r][i], 3e-6);
      }
    }
  }
}

}  // namespace
}  // namespace trireme::testing
