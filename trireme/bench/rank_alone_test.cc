// Steps of one rank whose peers only echo it: every method of exchange computes and sends without waiting for
// anybody.
#include "trireme/bench/rank_alone.h"

#include <gtest/gtest.h>

#include <array>

#include "trireme/exchange/consistency.h"
#include "trireme/exchange/method.h"

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

TEST(RankAlone, EveryMethodIsTimed) {
  Plan plan;
  plan.mesh = Mesh({{"data", 4}});
  EXPECT_GT(seconds_of_rank_alone(small_gpt("adamw"), plan), 0);
  for (const ExchangeMethod& method : exchange_methods()) {
    plan.exchange = {{.method = std::string(method.name)}};
    const bool gradient = method.direction == ExchangeMethod::Direction::kGradient;
    EXPECT_GT(seconds_of_rank_alone(small_gpt(gradient ? "adamw" : "sgd"), plan), 0) << method.name;
  }
  for (const ExchangeRule& rule : consistency_rules()) {
    plan.exchange = {rule};
    EXPECT_GT(seconds_of_rank_alone(small_gpt("adamw"), plan), 0) << rule.method;
  }
}

}  // namespace
}  // namespace trireme::bench
