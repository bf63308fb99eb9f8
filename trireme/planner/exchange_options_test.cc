#include "trireme/planner/exchange_options.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "trireme/mesh/cluster_file.h"
#include "trireme/run/plan_subject.h"

namespace trireme::planner {
namespace {

Subject small_subject() {
  Config config;
  config.model.family = "gpt";
  config.model.layers = 2;
  config.model.heads = 4;
  config.model.hidden = 64;
  config.model.vocab = 128;
  config.model.seq = 16;
  config.train.batch = 4;
  config.train.threads = 1;
  config.optim.kind = "sgd";
  config.train.clip_norm = 0;
  return plan_subject(config, Shape{16});
}

Cluster two_devices(double alpha_seconds, double bytes_per_second) {
  return parse_cluster(fmt::format(R"(
name = "two"
[[device]]
name = "d"
memory_bytes = 1e9
bytes_per_second = 1e10
flops_per_second = {{f32 = 1e12}}
[[host]]
device = "d"
devices = 2
inside = "l"
[[link]]
name = "l"
alpha_seconds = {}
bytes_per_second = {}
)",
                                   alpha_seconds, bytes_per_second),
                       "test");
}

Found replicas(const Subject& subject, const Cluster& cluster, int data = 2) {
  const Choice choice{.data = data, .rows = 4 / data};
  Plan plan = plan_of(choice, {});
  sim::SimReport report = simulate(subject, cluster, choice, plan);
  return {choice, std::move(plan), {}, std::move(report)};
}

TEST(ExchangeOptions, SlowWiresWantFewerBytes) {
  const Subject subject = small_subject();
  const Cluster cluster = two_devices(0, 1e5);
  const ExchangeAnswer answer = exchange_options(replicas(subject, cluster), subject, cluster);
  EXPECT_GT(answer.rate_seconds, 0.9 * answer.dense().step_seconds);
  EXPECT_LT(answer.latency_seconds, 0.01 * answer.dense().step_seconds);
  EXPECT_LT(answer.fastest().step_seconds, 0.2 * answer.dense().step_seconds);
  const auto local = std::ranges::find(answer.options, "local", &ExchangeOption::method);
  ASSERT_NE(local, answer.options.end());
  EXPECT_EQ(local->refused, "");
  EXPECT_LT(local->bytes_sent, answer.dense().bytes_sent);
  // Those that can not be are last, and say why.
  EXPECT_TRUE(std::ranges::is_sorted(answer.options, {},
                                     [](const ExchangeOption& one) { return !one.refused.empty(); }));
}

TEST(ExchangeOptions, LateMessagesAreTheirOwnReason) {
  const Subject subject = small_subject();
  const Cluster cluster = two_devices(1, 1e15);
  const ExchangeAnswer answer = exchange_options(replicas(subject, cluster), subject, cluster);
  EXPECT_GT(answer.latency_seconds, 0.9 * answer.dense().step_seconds);
  EXPECT_LT(answer.rate_seconds, 0.01 * answer.dense().step_seconds);
}

TEST(ExchangeOptions, OneReplicaHasNothingToAgreeOn) {
  const Subject subject = small_subject();
  Cluster cluster = two_devices(0, 1e9);
  cluster.hosts[0].devices = 1;
  EXPECT_THROW(exchange_options(replicas(subject, cluster, 1), subject, cluster), Error);
}

}  // namespace
}  // namespace trireme::planner
