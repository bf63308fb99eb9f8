// Who is drawn, and who trains whom when.
#include "trireme/plan/clients.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "trireme/base/error.h"

namespace trireme {
namespace {

Agreement fedavg(int64_t clients, double fraction, int64_t steps = 2, int64_t seed = 0) {
  return {{{.method = "fedavg",
            .numbers = {{"clients", static_cast<double>(clients)},
                        {"fraction", fraction},
                        {"steps", static_cast<double>(steps)},
                        {"seed", static_cast<double>(seed)}}}},
          /*ranks=*/4};
}

TEST(Clients, OfOtherAgreementsAreTheReplicas) {
  const Agreement local({{.method = "local", .numbers = {{"steps", 3}}}}, 4);
  const Clients clients(local, 4);
  EXPECT_EQ(clients.count(), 4);
  EXPECT_EQ(clients.turns(), 1);
  for (int64_t step = 0; step < 9; ++step) EXPECT_EQ(clients.trained(step, 2), 2);
}

// 6 of 10 in 2 turns on 4 replicas: the last two have nothing to do in the second turn.
TEST(Clients, AreSharedOutInTurns) {
  const Agreement how = fedavg(10, 0.6, 3);
  const Clients clients(how, 4);
  EXPECT_EQ(clients.drawn(), 6);
  EXPECT_EQ(clients.turns(), 2);
  EXPECT_DOUBLE_EQ(clients.busy_share(), 6.0 / 8);
  EXPECT_TRUE(clients.leave_some_idle());
  for (int64_t replica = 0; replica < 4; ++replica) EXPECT_EQ(clients.turns_of(replica), replica < 2 ? 2 : 1);
  for (int64_t round = 0; round < 5; ++round) {
    std::set<int64_t> drawn;
    for (int64_t step = 6 * round; step < 6 * round + 6; ++step) {
      for (int64_t replica = 0; replica < 4; ++replica) {
        const bool idle = step % 6 >= 3 && replica >= 2;
        const std::optional<int64_t> client = clients.trained(step, replica);
        ASSERT_EQ(client.has_value(), !idle) << step << " " << replica;
        if (!client) continue;
        EXPECT_LT(*client, 10);
        EXPECT_EQ(client, clients.trained(step - step % 3, replica));  // through the whole turn
        if (step % 3 == 0) {
          EXPECT_TRUE(drawn.insert(*client).second) << "trained twice in a round";
        }
      }
    }
    EXPECT_EQ(drawn.size(), 6u);
  }
}

TEST(Clients, AreDrawnAboutAsOftenAsAnyOther) {
  const Agreement how = fedavg(7, 3.0 / 7, 1, 1);
  const Clients clients(how, 3);
  std::map<int64_t, int> times;
  constexpr int kRounds = 700;
  for (int64_t step = 0; step < kRounds; ++step) {
    for (int64_t replica = 0; replica < 3; ++replica) ++times[clients.trained(step, replica).value()];
  }
  // 300 times each, with a standard deviation of 13.
  for (int64_t client = 0; client < 7; ++client) EXPECT_NEAR(times[client], 3 * kRounds / 7, 60);
  const Agreement other = fedavg(7, 3.0 / 7, 1, 2);
  int differ = 0;
  for (int64_t step = 0; step < 20; ++step)
    differ += clients.trained(step, 0) != Clients(other, 3).trained(step, 0);
  EXPECT_GT(differ, 0);
}

// What a client has had so far is what it was trained before, so that its samples go on where they were.
TEST(Clients, GoOnWhereTheyWere) {
  const Agreement how = fedavg(9, 0.5, 2);
  const Clients clients(how, 3);
  std::map<int64_t, int64_t> steps;
  for (int64_t step = 0; step < 60; ++step) {
    for (int64_t client = 0; client < 9; ++client)
      ASSERT_EQ(clients.steps_before(step, client), steps[client]) << step << " " << client;
    for (int64_t replica = 0; replica < 3; ++replica) {
      if (const auto client = clients.trained(step, replica)) ++steps[*client];
    }
  }
}

TEST(Clients, AreNotFewerThanReplicas) {
  const Agreement how = fedavg(3, 1);
  try {
    const Clients clients(how, 4);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("clients = 3"));
  }
}

}  // namespace
}  // namespace trireme
