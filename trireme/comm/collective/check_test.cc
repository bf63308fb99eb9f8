// Proves every algorithm for up to 64 ranks, compares rounds and bytes with the closed forms, and breaks
// Steps in every way the checker has to notice.
#include "trireme/comm/collective/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/collective_cases.h"
#include "tests/support/error_of.h"
#include "trireme/base/error.h"
#include "trireme/comm/collective/algorithms.h"
#include "trireme/comm/collective/formula.h"

namespace trireme::comm {
namespace {

constexpr int kMostRanks = 64;
constexpr int kAllRootsUpTo = 12;
constexpr int kCutUpTo = 20;
constexpr size_t kChunkBytes = 3 * 16;

bool has_root(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce ||
         collective == Collective::gather || collective == Collective::scatter;
}

// `saved_rounds`: how many fewer rounds than the formula there may be.
void expect_proved(const Case& test, int ranks, int root, std::span<const int> hosts = {},
                   int saved_rounds = 0) {
  const Steps steps = make_steps(test.collective, test.algorithm, ranks, root, hosts);
  const Formula expected = formula(test.collective, test.algorithm, ranks, hosts);
  const Proof proof = check_steps(steps, test.collective, root);
  EXPECT_LE(proof.rounds, expected.rounds) << ranks << " ranks, root " << root;
  EXPECT_GE(proof.rounds, expected.rounds - saved_rounds) << ranks << " ranks, root " << root;
  if (ranks <= kCutUpTo) check_steps(steps, test.collective, root, /*pieces=*/3);

  const std::vector<size_t> chunk_bytes(steps.chunks(), kChunkBytes);
  const std::vector<size_t> sent = bytes_sent(steps, chunk_bytes);
  const int chunks_of_vector = test.collective == Collective::all_to_all ? ranks : steps.chunks();
  EXPECT_NEAR(*std::max_element(sent.begin(), sent.end()), expected.sent * chunks_of_vector * kChunkBytes,
              1e-6)
      << ranks << " ranks, root " << root;
}

class EveryAlgorithm : public testing::TestWithParam<Case> {};

TEST_P(EveryAlgorithm, IsProvedAndCostsWhatIsPublished) {
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    const int roots = !has_root(GetParam().collective) ? 1 : ranks <= kAllRootsUpTo ? ranks : 2;
    for (int i = 0; i < roots; ++i) {
      const int root = i == 1 && roots == 2 ? ranks - 1 : i;
      ASSERT_NO_THROW(expect_proved(GetParam(), ranks, root)) << ranks << " ranks, root " << root;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Steps, EveryAlgorithm, testing::ValuesIn(all_cases()), [](const auto& instance) {
  return std::string(name(instance.param.collective)) + "_" + std::string(name(instance.param.algorithm));
});

std::vector<Collective> of_two_levels() {
  std::vector<Collective> result;
  for (const Case& test : all_cases()) {
    if (test.algorithm == Algorithm::hierarchical) result.push_back(test.collective);
  }
  return result;
}

// Host numbers of ranks: hosts one after another, the same moved on by one, and dealt out in turns.
std::vector<std::vector<int>> placements(const std::vector<int>& sizes) {
  std::vector<int> blocked;
  for (size_t host = 0; host < sizes.size(); ++host)
    blocked.insert(blocked.end(), sizes[host], static_cast<int>(7 * host));
  std::vector<int> rotated = blocked, dealt;
  std::rotate(rotated.begin(), rotated.begin() + 1, rotated.end());
  for (int turn = 0; turn < *std::max_element(sizes.begin(), sizes.end()); ++turn) {
    for (size_t host = 0; host < sizes.size(); ++host) {
      if (turn < sizes[host]) dealt.push_back(static_cast<int>(7 * host));
    }
  }
  return {blocked, rotated, dealt};
}

TEST(Hierarchical, IsProvedForHostsOfAnySize) {
  const std::vector<std::vector<int>> all_sizes = {
      {2, 2},   {4, 4, 4}, {1, 1, 1}, {4, 4},       {5, 5, 5}, {8, 8, 8, 8},           std::vector<int>(8, 8),
      {32, 32}, {3, 1},    {1, 5, 2}, {7, 3, 3, 8}, {16, 17},  std::vector<int>(16, 4)};
  for (const Collective collective : of_two_levels()) {
    for (const std::vector<int>& sizes : all_sizes) {
      const bool even = std::adjacent_find(sizes.begin(), sizes.end(), std::not_equal_to<>()) == sizes.end();
      // Where ranks speak for others, giving and taking is a round each, but no part need take both.
      const int saved_rounds = even ? 0 : 2;
      for (const std::vector<int>& hosts : placements(sizes)) {
        const int ranks = static_cast<int>(hosts.size());
        const size_t largest = std::max_element(sizes.begin(), sizes.end()) - sizes.begin();
        const int every = ranks <= kAllRootsUpTo ? 1 : ranks / 2;  // root
        for (int root = 0; root < (has_root(collective) ? ranks : 1); root += every) {
          SCOPED_TRACE(std::string(name(collective)) + testing::PrintToString(hosts));
          check_steps(make_steps(collective, Algorithm::hierarchical, ranks, root, hosts), collective, root);
          if (has_root(collective) && hosts[root] != static_cast<int>(7 * largest)) continue;
          expect_proved({collective, Algorithm::hierarchical}, ranks, root, hosts, saved_rounds);
        }
      }
    }
  }
}

// In vectors, what two hosts of four ranks send one another.
TEST(Hierarchical, SendsLessAcrossHostsThanTheRing) {
  const std::vector<int> hosts = {0, 0, 0, 0, 1, 1, 1, 1};
  const auto across = [&](Collective collective, Algorithm algorithm) {
    const Steps steps = make_steps(collective, algorithm, 8, 0, hosts);
    int chunks = 0;
    for (int rank = 0; rank < 8; ++rank) {
      for (const Step& step : steps.of(rank)) {
        if (step.kind == Step::Kind::send && hosts[rank] != hosts[step.peer]) chunks += step.count;
      }
    }
    return 1.0 * chunks / steps.chunks();
  };
  EXPECT_DOUBLE_EQ(across(Collective::all_reduce, Algorithm::hierarchical), 2.0);  // one vector each way
  EXPECT_DOUBLE_EQ(across(Collective::all_reduce, Algorithm::ring), 2 * 2 * 7 / 8.0);
  for (const Collective half : {Collective::reduce_scatter, Collective::all_gather}) {
    EXPECT_DOUBLE_EQ(across(half, Algorithm::hierarchical), 1.0);
    EXPECT_DOUBLE_EQ(across(half, Algorithm::ring), 2 * 7 / 8.0);
  }
  // One vector there, and half of one back: nobody asks whether the root has it already.
  EXPECT_DOUBLE_EQ(across(Collective::broadcast, Algorithm::hierarchical), 1.5);
}

// Each rank gives the other host a half of what it has, whatever the algorithm: in one message, or in one for
// each rank there. What comes from there is dealt out with what is for ranks of the own host.
TEST(Hierarchical, AllToAllSendsOneMessageToEachOtherHost) {
  const std::vector<int> hosts = {0, 0, 0, 0, 1, 1, 1, 1};
  struct Sent {
    int messages = 0, chunks = 0;
    bool operator==(const Sent&) const = default;
  };
  const auto sent = [&](Algorithm algorithm, bool across) {
    const Steps steps = make_steps(Collective::all_to_all, algorithm, 8, 0, hosts);
    Sent by_rank_0;
    for (const Step& step : steps.of(0)) {
      if (step.kind != Step::Kind::send || (hosts[step.peer] != hosts[0]) != across) continue;
      ++by_rank_0.messages;
      by_rank_0.chunks += step.count;
    }
    return by_rank_0;
  };
  EXPECT_EQ(sent(Algorithm::naive, true), (Sent{4, 4}));
  EXPECT_EQ(sent(Algorithm::hierarchical, true), (Sent{1, 4}));
  EXPECT_EQ(sent(Algorithm::naive, false), (Sent{3, 3}));
  EXPECT_EQ(sent(Algorithm::hierarchical, false), (Sent{3, 6}));
}

TEST(DoubleTree, HasAtMostTwoChildrenInBothTreesTogether) {
  for (int ranks = 2; ranks <= kMostRanks; ++ranks) {
    const Steps steps = make_steps(Collective::all_reduce, Algorithm::double_tree, ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      const auto adds = std::count_if(steps.of(rank).begin(), steps.of(rank).end(), [](const Step& step) {
        return step.kind == Step::Kind::receive && step.action == Action::add;
      });
      EXPECT_LE(adds, 2) << "rank " << rank << " of " << ranks;
    }
  }
}

std::string verdict(const Steps& steps, Collective collective) {
  return error_of([&] { check_steps(steps, collective); });
}

Step send(int peer, int chunk, int count = 1) {
  return {Step::Kind::send, Action::copy, peer, chunk, 0, count};
}
Step receive(Action action, int peer, int chunk, int count = 1) {
  return {Step::Kind::receive, action, peer, chunk, 0, count};
}

constexpr Action kAdd = Action::add;
constexpr Action kCopy = Action::copy;

TEST(Checker, NamesWhoseContributionIsMissing) {
  Steps steps(3, 1);
  steps.send(1, 0, 0, kAdd);  // and rank 2 is forgotten
  for (const int to : {1, 2}) steps.send(0, to, 0, kCopy);
  EXPECT_EQ(verdict(steps, Collective::all_reduce),
            "rank 0 ends with the contribution of rank 2 to chunk 0 0 times, expected 1");
}

TEST(Checker, NamesWhatIsCountedTwice) {
  Steps steps(2, 2);
  for (int chunk = 0; chunk < 2; ++chunk) {
    steps.send(1, 0, chunk, kAdd);
    steps.send(0, 1, chunk, chunk == 0 ? kCopy : kAdd);
  }
  EXPECT_EQ(verdict(steps, Collective::all_reduce),
            "rank 1 ends with the contribution of rank 1 to chunk 1 2 times, expected 1");
}

TEST(Checker, FindsACircle) {
  // Both want to receive before they send what they received into.
  const Steps steps =
      Steps::from_lists(1, {{receive(kAdd, 1, 0), send(1, 0)}, {receive(kAdd, 0, 0), send(0, 0)}});
  EXPECT_EQ(verdict(steps, Collective::all_reduce),
            "these wait for each other for ever: rank 0, step 0 (receive chunk 0 from rank 1) waits for "
            "rank 1, step 1 (send chunk 0 to rank 0) waits for rank 1, step 0 (receive chunk 0 from rank 0) "
            "waits for rank 0, step 1 (send chunk 0 to rank 1) waits for the first");
}

TEST(Checker, FindsACircleThroughTheOrderOfAPair) {
  // Rank 0 sends chunk 2 before chunk 0, but chunk 2 waits for rank 2, which waits for rank 1 to have chunk
  // 0.
  const Steps steps = Steps::from_lists(3, {{receive(kAdd, 2, 1, 2), send(1, 2), send(1, 0)},
                                            {receive(kAdd, 0, 2), receive(kAdd, 0, 0), send(2, 0, 2)},
                                            {receive(kAdd, 1, 0, 2), send(0, 1, 2)}});
  EXPECT_THAT(verdict(steps, Collective::all_reduce),
              testing::AllOf(testing::HasSubstr("wait for each other for ever"),
                             testing::HasSubstr("rank 0, step 2 (send chunk 0 to rank 1) waits for rank 1, "
                                                "step 0 (receive chunk 2 from rank 0)")));
}

TEST(Checker, OneMessageBesideItsPlaceIsEnoughForAnExchange) {
  const Steps exchange = Steps::from_lists(
      2, {{send(1, 0, 2), receive(kAdd, 1, 0, 2)}, {send(0, 0, 2), receive(kAdd, 0, 0, 2)}});
  EXPECT_NO_THROW(check_steps(exchange, Collective::all_reduce, 0, /*pieces=*/1));
  EXPECT_NO_THROW(check_steps(exchange, Collective::all_reduce, 0, /*pieces=*/3));
  // But not when each can add the other's first message only after it has sent its own second.
  const Steps crossed =
      Steps::from_lists(2, {{send(1, 0), send(1, 1), receive(kAdd, 1, 1), receive(kAdd, 1, 0)},
                            {send(0, 1), send(0, 0), receive(kAdd, 0, 0), receive(kAdd, 0, 1)}});
  EXPECT_THAT(verdict(crossed, Collective::all_reduce), testing::HasSubstr("wait for each other for ever"));
}

TEST(Checker, FindsPartsThatDoNotFit) {
  const Steps steps = Steps::from_lists(2, {{{Step::Kind::local, kCopy, 0, 0, 1}}});
  EXPECT_EQ(verdict(steps, Collective::all_reduce),
            "rank 0, step 0: combines chunk 1 into chunk 0, which is another part");
}

TEST(Checker, FindsAnotherOrderOfAdditions) {
  // Every rank adds the others' vectors to its own as they come: (0+1)+2, (1+2)+0, (2+0)+1.
  Steps steps(3, 1);
  steps.round([&] {
    for (int k = 1; k < 3; ++k) {
      for (int r = 0; r < 3; ++r) steps.send(r, r - k, 0, kAdd);
    }
  });
  EXPECT_EQ(verdict(steps, Collective::all_reduce),
            "ranks 0 and 1 add up chunk 0 in different orders, so their bits may differ");
}

TEST(Checker, FindsWhatIsReadBeforeItIsWritten) {
  Steps gather(2, 2);
  gather.send(1, 0, 0, kCopy);  // chunk 0 is rank 0's
  EXPECT_EQ(verdict(gather, Collective::all_gather),
            "rank 1, step 0 (send chunk 0 to rank 0): chunk 0 holds nothing yet");

  Steps scratch(2, 1);
  const int room = scratch.scratch();
  scratch.send(1, 0, 0, room, kAdd);
  EXPECT_EQ(verdict(scratch, Collective::reduce),
            "rank 0, step 0 (receive chunk 1 from rank 1): chunk 1 holds nothing yet");
}

TEST(Checker, FindsSendsAndReceivesThatDoNotMatch) {
  EXPECT_EQ(verdict(Steps::from_lists(1, {{send(1, 0)}, {}}), Collective::broadcast),
            "rank 0, step 0 (send chunk 0 to rank 1): nobody receives it");
  EXPECT_EQ(verdict(Steps::from_lists(1, {{}, {receive(kCopy, 0, 0)}}), Collective::broadcast),
            "rank 1, step 0 (receive chunk 0 from rank 0): nobody sends it");
  EXPECT_EQ(verdict(Steps::from_lists(2, {{send(1, 0)}, {receive(kCopy, 0, 1)}}), Collective::broadcast),
            "rank 0, step 0 (send chunk 0 to rank 1) meets rank 1, step 0 (receive chunk 1 from rank 0): not "
            "the same part of the vector");
  EXPECT_EQ(verdict(Steps::from_lists(2, {{send(1, 0, 2)}, {receive(kCopy, 0, 0)}}), Collective::broadcast),
            "rank 0, step 0 (send chunks 0-1 to rank 1) meets rank 1, step 0 (receive chunk 0 from rank 0): "
            "not the same part of the vector");
  EXPECT_EQ(verdict(Steps::from_lists(1, {{send(0, 0)}, {}}), Collective::broadcast),
            "rank 0, step 0 (send chunk 0 to rank 0): there is no such peer");
  EXPECT_EQ(verdict(Steps::from_lists(2, {{send(1, 1, 2)}, {}}), Collective::broadcast),
            "rank 0, step 0: chunks 1 to 2, expected 0 to 1 (and no scratch among several)");
}

TEST(Checker, WantsTheWholeResult) {
  EXPECT_EQ(verdict(Steps(2, 1), Collective::broadcast),
            "rank 1 ends with nothing in chunk 0, which broadcast owes it");
  EXPECT_EQ(verdict(Steps(3, 2), Collective::reduce_scatter),
            "reduce_scatter of 3 ranks in 2 chunks, expected 3");
}

// Two chunks of scratch in one message are something only where no chunk is larger than another.
TEST(Checker, LetsChunksStandForOthersWhereAllAreOfOneSize) {
  const auto passed_on = [](bool even) {
    Steps steps(3, 9);
    if (even) steps.expect_even_chunks();
    const int room = steps.scratch();
    steps.scratch();
    for (const auto& [from, to] : {std::pair(0, 1), {1, 0}, {1, 2}, {2, 1}})
      steps.send(from, to, 3 * from + to, kCopy);
    steps.send(2, 1, Chunks{6, 1}, room, kCopy);
    steps.send(0, 1, Chunks{2, 1}, room + 1, kCopy);
    steps.send(1, 0, Chunks{room, 2}, room, kCopy);
    steps.local(0, 6, room, kCopy);
    steps.send(1, 2, Chunks{room + 1, 1}, 2, kCopy);
    return verdict(steps, Collective::all_to_all);
  };
  EXPECT_EQ(passed_on(true), "no error");
  EXPECT_THAT(passed_on(false), testing::HasSubstr("no scratch among several"));
}

TEST(Checker, FindsWhatWasPassedOnToAnother) {
  Steps steps(2, 4);
  steps.expect_even_chunks();
  steps.send(0, 1, Chunks{0, 1}, 1, kCopy);  // what rank 0 has for itself
  steps.send(1, 0, Chunks{2, 1}, 2, kCopy);
  EXPECT_EQ(verdict(steps, Collective::all_to_all), "rank 1 ends with what belongs to chunk 0 in chunk 1");
}

TEST(Steps, OneRoundSendsWhatWasThereBefore) {
  Steps exchange(2, 1);
  exchange.each([&](int r) { exchange.send(r, r + 1, 0, kAdd); });
  EXPECT_EQ(check_steps(exchange, Collective::all_reduce).rounds, 1);

  Steps one_after_another(2, 1);
  for (int r = 0; r < 2; ++r) one_after_another.send(r, r + 1, 0, kAdd);
  EXPECT_EQ(verdict(one_after_another, Collective::all_reduce),
            "rank 0 ends with the contribution of rank 0 to chunk 0 2 times, expected 1");
}

TEST(Algorithms, RefuseWhatIsNotThere) {
  using testing::HasSubstr;
  EXPECT_EQ(error_of([] { make_steps(Collective::reduce, Algorithm::ring, 4); }),
            "no steps for reduce by ring: there are naive, tree, linear");
  EXPECT_THAT(error_of([] { make_steps(Collective::message, Algorithm::ring, 4); }),
              HasSubstr("has no algorithms"));
  EXPECT_THAT(error_of([] { make_steps(Collective::reduce, Algorithm::tree, 4, 4); }),
              HasSubstr("root 4 of 4 ranks; expected 0 to 3"));
  const std::vector<int> hosts = {0, 1};
  EXPECT_THAT(error_of([&] { make_steps(Collective::all_reduce, Algorithm::hierarchical, 3, 0, hosts); }),
              HasSubstr("host numbers of 2 ranks given for 3"));
}

}  // namespace
}  // namespace trireme::comm
