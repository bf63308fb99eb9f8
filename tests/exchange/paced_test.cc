// Ranks that mix weights at their own pace: the same order of arrivals gives the same bits again, and that of
// lockstep those of d_psgd; a rank that is held up holds up others as far as the staleness says and no
// further; one that stops, or fails, ends all. That they mix what the order says is for `trireme verify`
// (train/parity/agreeing.h), and its test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <set>
#include <thread>

#include "tests/exchange/local_ranks.h"
#include "tests/exchange/paced_ranks.h"
#include "tests/support/error_of.h"
#include "trireme/exchange/gossip.h"
#include "trireme/ops/table.h"
#include "trireme/program/text.h"
#include "trireme/program/verify.h"

namespace trireme::testing {
namespace {

using ::testing::HasSubstr;

Training training_of(int64_t steps) {
  Training training = small_mlp();
  training.steps = steps;
  training.rate = 0.3;
  return training;
}

Plan stale_plan(int ranks, int64_t staleness, const char* graph = "ring") {
  return plan_of(fmt::format("data:{}", ranks),
                 fmt::format(R"({{"method": "d_psgd", "staleness": {}, "graph": "{}"}})", staleness, graph));
}
Plan pair_plan(int ranks, const char* graph = "ring") {
  return plan_of(fmt::format("data:{}", ranks),
                 fmt::format(R"({{"method": "ad_psgd", "graph": "{}"}})", graph));
}

// So that ranks come apart, differently in each run.
bool is_slow(int rank, int64_t step, Communicator&) {
  std::this_thread::sleep_for(std::chrono::milliseconds(rank == 2 ? 9 : (rank + step) % 3));
  return true;
}

// Where each takes of each neighbour what that has sent in the same step.
TEST(PacedGossip, InLockstepHasTheBitsOfDPsgd) {
  const Training training = training_of(6);
  const Plan plan = stale_plan(4, 2);
  std::vector<ArrivalOrder> lockstep(4);
  for (int r = 0; r < 4; ++r) {
    for (int64_t step = 1; step <= training.steps; ++step)
      lockstep[static_cast<size_t>(r)][step] = neighbours(GossipGraph::kRing, 4, r);
  }
  const PacedRun run = paced_run(plan, training, {.replay = lockstep});
  const PacedRun plain = paced_run(plan_of("data:4", R"({"method": "d_psgd", "staleness": 0})"), training);
  for (size_t r = 0; r < 4; ++r) {
    for (size_t step = 0; step < run.ranks[r].steps.size(); ++step)
      EXPECT_EQ(run.ranks[r].steps[step].after, plain.ranks[r].steps[step].after)
          << r << ", step " << step + 1;
  }
  // And so has the list that its program has for it.
  const LocalRun listed = run_of(plan, training),
                 plain_listed = run_of(plan_of("data:4", R"("d_psgd")"), training);
  for (size_t step = 0; step < listed.steps.size(); ++step)
    EXPECT_EQ(listed.steps[step].after, plain_listed.steps[step].after);
}

TEST(PacedGossip, AReplayHasTheSameBits) {
  const Training training = training_of(12);
  const comm::EmulatedLink link = comm::parse_emulated_link("latency=1ms,jitter=4ms");
  for (const Plan& plan :
       {stale_plan(4, 2), pair_plan(4), pair_plan(5, "exponential"), pair_plan(6, "torus")}) {
    const PacedRun run = paced_run(plan, training, {.link = link, .before = is_slow});
    const PacedRun again = paced_run(plan, training, {.replay = run.orders()});
    EXPECT_EQ(again.orders(), run.orders());
    for (size_t r = 0; r < run.ranks.size(); ++r) {
      for (size_t step = 0; step < run.ranks[r].steps.size(); ++step)
        ASSERT_EQ(again.ranks[r].steps[step].after, run.ranks[r].steps[step].after)
            << r << ", step " << step + 1;
      EXPECT_EQ(again.ranks[r].left, run.ranks[r].left);
    }
  }
}

TEST(PacedGossip, AnOrderThatCanNotBeIsRefused) {
  const Training training = training_of(3);
  const auto error = [&](const Plan& plan, const ArrivalOrder& order) {
    return error_of([&] { paced_run(plan, training, {.replay = std::vector(2, order)}); });
  };
  EXPECT_THAT(error(stale_plan(2, 1), {{1, {}}}), HasSubstr("is not through after the 0 arrivals"));
  EXPECT_THAT(error(stale_plan(2, 1), {{1, {0, 0, 0}}}),
              HasSubstr("it is the log of a run with another plan"));
  EXPECT_THAT(error(pair_plan(2), {{1, {1}}, {2, {1}}}),
              HasSubstr("it is the log of a run with another plan"));
  EXPECT_THAT(error(pair_plan(2), {}), HasSubstr("has no arrivals of it"));
}

// Rank 3 of a ring makes four steps and then no more until rank 1, which is no neighbour of it, has made as
// many as it may: its neighbours have sent of as many more as the staleness says, and one, and rank 1 mixes
// of as many more.
TEST(PacedGossip, WaitsNoMoreThanTheStalenessSays) {
  for (const int64_t staleness : {1, 2}) {
    std::array<std::atomic<int64_t>, 4> made = {};
    const auto before = [&](int rank, int64_t step, Communicator& communicator) {
      made[static_cast<size_t>(rank)] = step;
      while (rank == 3 && step == 4 && made[1] < 5 + 2 * staleness) communicator.progress();
      return true;
    };
    const PacedRun run = paced_run(stale_plan(4, staleness), training_of(12), {.before = before});
    EXPECT_EQ(run.ranks[1].steps.size(), 12u);
  }
}

// Behind all steps of the others.
TEST(PacedPairs, NobodyWaits) {
  std::atomic<int> through = 0;
  const auto before = [&](int rank, int64_t step, Communicator& communicator) {
    if (rank != 3 && step == 9) ++through;
    while (rank == 3 && step == 1 && through < 3) communicator.progress();
    return true;
  };
  const PacedRun run = paced_run(pair_plan(4), training_of(10), {.before = before});
  for (const PacedRank& rank : run.ranks) EXPECT_EQ(rank.steps.size(), 10u);
}

// However late answers come.
TEST(PacedPairs, AllTogetherChangeByTheirStepsAlone) {
  for (const auto& [ranks, graph] :
       {std::pair{2, "ring"}, {4, "ring"}, {5, "ring"}, {6, "torus"}, {6, "exponential"}}) {
    const Training training = training_of(12);
    const PacedRun run = paced_run(pair_plan(ranks, graph), training, {.before = is_slow});
    size_t arrived = 0;
    for (const auto& [name, start] : run.start) {
      for (size_t i = 0; i < start.size(); ++i) {
        double expected = ranks * static_cast<double>(start[i]), sum = 0;
        for (const PacedRank& rank : run.ranks) {
          for (const PacedRank::Step& step : rank.steps)
            expected -= training.rate * static_cast<double>(step.gradients.at(name)[i]);
          sum += static_cast<double>(rank.left.at(name)[i]);
        }
        ASSERT_NEAR(sum, expected, 3e-6 * ranks) << name << " of " << ranks << " ranks";
      }
    }
    for (const PacedRank& rank : run.ranks) {
      for (const auto& [step, arrivals] : rank.order) arrived += arrivals.size();
    }
    EXPECT_GT(arrived, static_cast<size_t>(2 * ranks)) << graph;  // each has heard of others but for goodbyes
  }
}

// Who asks asks again as soon as it has its answer: the steps between two answers are those that the second
// one took.
TEST(PacedPairs, SayHowManyStepsAnAnswerTook) {
  const Plan plan = pair_plan(4);
  const auto seed = static_cast<uint64_t>(plan.agreement.settings().whole("seed"));
  const PacedRun run = paced_run(plan, training_of(20), {.before = is_slow});
  int heard = 0;
  for (int rank = 0; rank < 4; ++rank) {
    const PacedRank& one = run.ranks[static_cast<size_t>(rank)];
    if (!asks(GossipGraph::kRing, 4, rank)) continue;
    int64_t asked = 1;
    for (const auto& [step, arrivals] : one.order) {
      if (arrivals.empty() || step > std::ssize(one.steps)) continue;
      EXPECT_EQ(one.steps[static_cast<size_t>(step - 1)].result.staleness_mean,
                static_cast<double>(step - asked))
          << "rank " << rank << ", step " << step;
      EXPECT_EQ(arrivals, std::vector{PartnerDraw(GossipGraph::kRing, 4, rank, seed).at(asked - 1)});
      asked = step;
      ++heard;
    }
  }
  EXPECT_GT(heard, 3);
}

// In lockstep, each pair has the mean of both behind every step.
TEST(PacedPairs, InLockstepMeetInTheMiddle) {
  for (const int ranks : {2, 5}) {
    const Training training = training_of(5);
    const LocalRun run = run_of(pair_plan(ranks), training);
    for (const auto& [name, start] : run.start) {
      std::vector<std::vector<double>> x(static_cast<size_t>(ranks), {start.begin(), start.end()});
      for (const LocalStep& step : run.steps) {
        for (size_t r = 0; r < x.size(); ++r) {
          for (size_t i = 0; i < start.size(); ++i)
            x[r][i] -= training.rate * static_cast<double>(step.gradients.at(name)[r][i]);
        }
        for (const auto& [one, other] : apart_pairs(GossipGraph::kRing, ranks)) {
          for (size_t i = 0; i < start.size(); ++i) x[one][i] = x[other][i] = (x[one][i] + x[other][i]) / 2;
        }
        for (size_t r = 0; r < x.size(); ++r) {
          for (size_t i = 0; i < start.size(); ++i)
            ASSERT_NEAR(static_cast<double>(step.after.at(name)[r][i]), x[r][i], 3e-6)
                << name << " of rank " << r;
        }
      }
    }
  }
}

TEST(PacedPrograms, AreSoundAndSayWhatIsSent) {
  const Training training = training_of(2);
  const std::unique_ptr<Device> device = make_cpu_device(1);
  for (const auto& [plan, messages] : {std::pair{stale_plan(4, 2), 2},
                                       {stale_plan(6, 1, "torus"), 3},
                                       {pair_plan(2), 1},
                                       {pair_plan(5), 1},
                                       {pair_plan(12, "torus"), 1}}) {
    std::vector<Program> ranks;
    int64_t elements = 0;
    for (int rank = 0; rank < plan.mesh.ranks(); ++rank)
      ranks.push_back(step_program(training.model, training.train, training.optim, training.shape, *device,
                                   {plan, rank, nullptr}));
    verify(ranks);
    for (const Program& program : ranks)
      EXPECT_EQ(print(parse_program(print(program), ops())), print(program));
    for (const State& state : ranks[0].states) {
      if (state.role == Role::kParameter) elements += state.type.shape.elements();
    }
    EXPECT_EQ(bytes_sent_in_step(ranks[0]), messages * (4.0 * static_cast<double>(elements) + 4));
  }
}

// One that is asked to stop tells the others, who end some steps later, long before they would be through;
// also where it only answers, and those that it is no partner of.
TEST(PacedRanks, StopTogether) {
  constexpr int64_t kSteps = 3000;
  for (const Plan& plan : {stale_plan(4, 1), pair_plan(4)}) {
    for (const int stopped : {1, 2}) {
      const auto before = [&](int rank, int64_t step, Communicator&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return rank != stopped || step < 3;
      };
      const PacedRun run = paced_run(plan, training_of(kSteps), {.before = before});
      for (int rank = 0; rank < 4; ++rank) {
        const auto steps = std::ssize(run.ranks[static_cast<size_t>(rank)].steps);
        if (rank == stopped)
          EXPECT_EQ(steps, 3);
        else
          EXPECT_LT(steps, kSteps) << "rank " << rank << " does not hear of rank " << stopped;
      }
    }
  }
}

// Each draws its partners for itself: those that ask first do not all turn to the same side, whatever the
// seed is; and each comes to both of its partners.
TEST(PacedPairs, DrawPartnersByRankAndStep) {
  constexpr int kRanks = 8;
  std::set<std::pair<int, bool>> sides;  // of the first that each asks, by seed
  for (const int seed : {1, 2, 3}) {
    const Plan plan =
        plan_of("data:8", fmt::format(R"({{"method": "ad_psgd", "graph": "ring", "seed": {}}})", seed));
    // Nobody is more than a step ahead, so that answers come while others still ask.
    std::array<std::atomic<int64_t>, kRanks> made = {};
    const auto before = [&](int rank, int64_t step, Communicator& communicator) {
      made[static_cast<size_t>(rank)] = step;
      while (std::ranges::any_of(made, [&](const auto& other) { return other < step - 1; }))
        communicator.progress();
      return true;
    };
    const PacedRun run = paced_run(plan, training_of(40), {.before = before});
    for (int rank = 0; rank < kRanks; ++rank) {
      if (!asks(GossipGraph::kRing, kRanks, rank)) continue;
      std::vector<int> asked;
      for (const auto& [step, arrivals] : run.ranks[static_cast<size_t>(rank)].order)
        asked.insert(asked.end(), arrivals.begin(), arrivals.end());
      ASSERT_FALSE(asked.empty());
      sides.insert({seed, asked[0] == (rank + 1) % kRanks});
      EXPECT_GT(std::set<int>(asked.begin(), asked.end()).size(), 1u) << "rank " << rank << " asks one alone";
    }
  }
  EXPECT_GT(sides.size(), 3u) << "with every seed all turn to the same side";
}

TEST(PacedRanks, OneThatFailsEndsAll) {
  for (const Plan& plan : {stale_plan(4, 1), pair_plan(4)}) {
    const auto before = [](int rank, int64_t step, Communicator&) {
      if (rank == 1 && step == 3) throw Error("it broke");
      return true;
    };
    EXPECT_THAT(error_of([&] { paced_run(plan, training_of(100000), {.before = before}); }),
                ::testing::AnyOf(HasSubstr("it broke"), HasSubstr("rank 1 has left the run")));
  }
}

TEST(GossipPairs, AreOfTwoKindsAndReachAll) {
  for (const GossipGraph graph : {GossipGraph::kRing, GossipGraph::kTorus, GossipGraph::kExponential}) {
    for (int ranks = 2; ranks <= 40; ++ranks) {
      std::vector<int> reached = {0};
      std::vector<bool> seen(static_cast<size_t>(ranks));
      seen[0] = true;
      EXPECT_TRUE(asks(graph, ranks, 0));
      for (size_t at = 0; at < reached.size(); ++at) {
        const std::vector<int> others = partners(graph, ranks, reached[at]);
        for (const int other : others) {
          ASSERT_NE(asks(graph, ranks, other), asks(graph, ranks, reached[at]));
          const std::vector<int> back = partners(graph, ranks, other);
          ASSERT_NE(std::ranges::find(back, reached[at]), back.end());
          if (!seen[static_cast<size_t>(other)]) reached.push_back(other);
          seen[static_cast<size_t>(other)] = true;
        }
      }
      EXPECT_EQ(std::ssize(reached), ranks) << ranks;
      std::vector<int> in_pairs;
      for (const auto& [one, other] : apart_pairs(graph, ranks)) {
        EXPECT_TRUE(asks(graph, ranks, one));
        in_pairs.insert(in_pairs.end(), {one, other});
      }
      std::ranges::sort(in_pairs);
      EXPECT_EQ(std::ranges::adjacent_find(in_pairs), in_pairs.end());
    }
  }
}

}  // namespace
}  // namespace trireme::testing
