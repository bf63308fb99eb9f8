// Steps of one rank whose peers only echo it: every method of exchange computes and sends without waiting for
// anybody.
#include "trireme/bench/rank_alone.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>

#include "trireme/exchange/method.h"
#include "trireme/plan/agreement.h"

namespace trireme::bench {
namespace {

StepSetup small_gpt(const std::string& optimizer) {
  return set_up_step(
      {.config_path = "",
       .preset = "",
       .image = "",
       .settings = {"model.layers=1", "model.hidden=32", "model.heads=2", "model.seq=16", "train.batch=4",
                    "train.threads=1", "optim.kind=" + optimizer, "train.clip_norm=0"}});
}

TEST(EchoCommunicator, PeersSayWhatThisRankSays) {
  EchoCommunicator echo(Mesh({{"data", 3}}), 1);
  std::array<int32_t, 6> parts = {0, 0, 7, 8, 0, 0};
  echo.all_gather("data", reinterpret_cast<std::byte*>(parts.data()), 6, DType::i32);
  EXPECT_EQ(parts, (std::array<int32_t, 6>{7, 8, 7, 8, 7, 8}));
  std::array<int32_t, 2> from = {5, 6}, to = {0, 0};
  const auto bytes = [](std::array<int32_t, 2>& of) { return reinterpret_cast<std::byte*>(of.data()); };
  echo.start_receive(0, bytes(to), 8, /*tag=*/1);
  echo.start_send(2, bytes(from), 8, /*tag=*/1);
  EXPECT_EQ(to, from);
}

// Two neighbours are awaited at once, and a third one whose kind of message this rank never sends.
TEST(EchoCommunicator, EveryMessageThatIsAwaitedIsWritten) {
  EchoCommunicator echo(Mesh({{"data", 4}}), 0);
  const int32_t own = 5;
  std::array<int32_t, 3> to = {-1, -1, -1};
  const auto bytes = [](int32_t& of) { return reinterpret_cast<std::byte*>(&of); };
  echo.start_receive(1, bytes(to[0]), 4, /*tag=*/1);
  echo.start_receive(2, bytes(to[1]), 4, /*tag=*/1);
  echo.start_receive(3, bytes(to[2]), 4, /*tag=*/2);
  echo.start_send(1, reinterpret_cast<const std::byte*>(&own), 4, /*tag=*/1);
  for (int32_t& message : to) echo.wait(bytes(message));
  EXPECT_EQ(to, (std::array<int32_t, 3>{5, 5, 0}));
}

// The time of a step is no more than all that it took to find it, and no less than its products take on a
// machine of 10 TFLOP/s a thread.
void expect_plausible(const std::string& optimizer, const Plan& plan) {
  const StepSetup setup = small_gpt(optimizer);
  const auto begin = std::chrono::steady_clock::now();
  const double seconds = seconds_of_rank_alone(setup, plan);
  const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - begin;
  // Of a block, forward and backward, 6 FLOPs a weight and token: 12·32² weights, 16 tokens of a row.
  EXPECT_GT(seconds, 6.0 * 12 * 32 * 32 * 16 / 1e13);
  EXPECT_LT(seconds, whole.count());
}

TEST(RankAlone, EveryMethodIsTimed) {
  Plan plan;
  plan.mesh = Mesh({{"data", 4}});
  expect_plausible("adamw", plan);
  for (const ExchangeMethod& method : exchange_methods()) {
    SCOPED_TRACE(method.name);
    plan.agreement = Agreement({{.method = std::string(method.name)}}, plan.mesh.ranks());
    const bool gradient = method.direction == ExchangeMethod::Direction::kGradient;
    expect_plausible(gradient ? "adamw" : "sgd", plan);
  }
  for (const ExchangeRule& rule : weight_rules()) {
    SCOPED_TRACE(rule.method);
    plan.agreement = Agreement({rule}, plan.mesh.ranks());
    expect_plausible("adamw", plan);
  }
}

}  // namespace
}  // namespace trireme::bench
