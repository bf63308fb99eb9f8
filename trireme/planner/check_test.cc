// Bounds against simulations, of small models on clusters that are drawn. `trireme plan --check` does the
// same for a user's own model and cluster, and bench/check_planner.py for many.
#include "trireme/planner/check.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trireme/base/rng.h"
#include "trireme/mesh/cluster_file.h"
#include "trireme/run/plan_subject.h"

namespace trireme::planner {
namespace {

class Dice {
 public:
  explicit Dice(uint64_t seed) : key_{seed, stream_id("check_test")} {}

  template <typename T>
  T of(std::initializer_list<T> values) {
    return values.begin()[random_words(key_, counter_++)[0] % values.size()];
  }

 private:
  RngKey key_;
  uint64_t counter_ = 0;
};

Subject random_subject(Dice& dice) {
  Config config;
  config.train.threads = 1;
  config.train.batch = dice.of<int64_t>({8, 16, 24});
  config.train.precision = dice.of<const char*>({"f32", "bf16"});
  if (config.train.precision == "bf16" && dice.of({true, false})) {
    config.train.weight_precision = "bf16";
    config.train.gradient_precision = dice.of<const char*>({"f32", "bf16"});
  }
  config.optim.kind = dice.of<const char*>({"adamw", "sgd"});
  if (dice.of({0, 1, 2}) == 0) {
    config.model.family = "resnet";
    config.model.layers = 8;
    config.model.classes = 10;
    return plan_subject(config, Shape{3, 16, 16});
  }
  config.model.family = "gpt";
  config.model.layers = dice.of<int64_t>({2, 4, 6});
  config.model.heads = 4;
  config.model.hidden = dice.of<int64_t>({32, 64, 96});
  config.model.vocab = dice.of<int64_t>({64, 1000});
  config.model.seq = dice.of<int64_t>({8, 32});
  return plan_subject(config, Shape{config.model.seq});
}

Cluster random_cluster(Dice& dice) {
  const int hosts = dice.of({1, 2});
  return parse_cluster(fmt::format(R"(
name = "drawn"
[[device]]
name = "d"
memory_bytes = {}
bytes_per_second = 1e10
flops_per_second = {{f32 = {}, bf16 = 8e11}}
launch_seconds = {}
[[host]]
device = "d"
devices = {}
count = {}
inside = "near"
across = "far"
[[link]]
name = "near"
alpha_seconds = {}
bytes_per_second = {}
[[link]]
name = "far"
alpha_seconds = 2e-5
bytes_per_second = {}
)",
                                   dice.of({1e6, 3e6, 1e7, 1e9}), dice.of({2e11, 1e12}), dice.of({0.0, 1e-6}),
                                   hosts == 1 ? dice.of({2, 4}) : 2, hosts, dice.of({1e-6, 2e-5}),
                                   dice.of({1e9, 1e11}), dice.of({1e7, 1e9})),
                       "test");
}

TEST(Check, BoundsHoldForRandomModelsAndClusters) {
  int64_t simulated = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Dice dice(seed);
    const Subject subject = random_subject(dice);
    const Cluster cluster = random_cluster(dice);
    const CheckReport report = check_plans(subject, cluster, {.plans = 12, .seed = seed});
    simulated += report.simulated;
    for (const BrokenBound& broken : report.broken)
      ADD_FAILURE() << "seed " << seed << ": " << broken.of << " " << broken.simulated << " beats "
                    << broken.bound << ": " << to_string(broken.choice) << "\n"
                    << to_json(broken.plan);
  }
  EXPECT_GE(simulated, 40);
}

// Units that are alike, and ops that become one across units or are split where their input is.
TEST(Check, BoundsHoldForAConvolutionalNetwork) {
  Config config;
  config.train.threads = 1;
  config.train.batch = 32;
  config.model.family = "resnet";
  config.model.layers = 50;
  config.model.classes = 10;
  const Subject subject = plan_subject(config, Shape{3, 64, 64});
  const Cluster cluster = parse_cluster(R"(
name = "one host"
[[device]]
name = "d"
memory_bytes = 1e10
bytes_per_second = 2e12
flops_per_second = {f32 = 3.75e13}
launch_seconds = 4e-6
[[host]]
device = "d"
devices = 8
inside = "near"
[[link]]
name = "near"
alpha_seconds = 1e-5
bytes_per_second = 3e11
)",
                                        "test");
  const CheckReport report = check_plans(subject, cluster, {.plans = 16, .seed = 102});
  EXPECT_GE(report.simulated, 14);
  for (const BrokenBound& broken : report.broken)
    ADD_FAILURE() << broken.of << " " << broken.simulated << " beats " << broken.bound << ": "
                  << to_string(broken.choice);
}

// The same seed draws the same plans, whatever the threads do.
TEST(Check, ASeedDrawsTheSamePlans) {
  Dice dice(3);
  const Subject subject = random_subject(dice);
  const Cluster cluster = random_cluster(dice);
  const CheckReport one = check_plans(subject, cluster, {.plans = 8, .seed = 5, .threads = 1});
  const CheckReport two = check_plans(subject, cluster, {.plans = 8, .seed = 5, .threads = 3});
  EXPECT_EQ(one.simulated, two.simulated);
  EXPECT_EQ(one.median_ratio, two.median_ratio);
  EXPECT_NE(one.median_ratio, check_plans(subject, cluster, {.plans = 8, .seed = 6}).median_ratio);
}

}  // namespace
}  // namespace trireme::planner
