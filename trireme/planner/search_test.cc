// The search against simulating everything, on a cluster and a model small enough for that.
#include "trireme/planner/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/mesh/cluster_file.h"
#include "trireme/planner/report.h"
#include "trireme/run/plan_subject.h"

namespace trireme::planner {
namespace {

using testing::HasSubstr;

Config small_gpt(int64_t layers = 6) {
  Config config;
  config.model.family = "gpt";
  config.model.layers = layers;
  config.model.heads = 4;
  config.model.hidden = 64;
  config.model.vocab = 128;
  config.model.seq = 32;
  config.train.batch = 16;
  config.train.threads = 1;
  return config;
}

Subject subject_of(const Config& config) {
  return plan_subject(config, Shape{config.model.seq});
}

// Devices that take about as long for work as their links for messages.
Cluster cluster_of(int devices, double memory_bytes, double link_bytes_per_second) {
  return parse_cluster(fmt::format(R"(
name = "small"
[[device]]
name = "d"
memory_bytes = {}
bytes_per_second = 1e10
flops_per_second = {{f32 = 2e11}}
launch_seconds = 1e-6
watts = 100
price_per_hour = 2
[[host]]
device = "d"
devices = {}
inside = "l"
[[link]]
name = "l"
alpha_seconds = 5e-6
bytes_per_second = {}
)",
                                   memory_bytes, devices, link_bytes_per_second),
                       "test");
}

// Two hosts of two such devices, with a slow link between them.
Cluster two_hosts(double inside_bytes_per_second, double across_bytes_per_second) {
  Cluster cluster = cluster_of(2, 1e9, inside_bytes_per_second);
  LinkClass far = cluster.links[0];
  far.name = "far";
  far.bytes_per_second = across_bytes_per_second;
  cluster.links.push_back(far);
  cluster.hosts[0].across = "far";
  cluster.hosts[0].count = 2;
  return cluster;
}

// A host of two such devices, and one of two that are half as fast and have half the memory.
Cluster mixed_cluster(double memory_bytes) {
  Cluster cluster = cluster_of(2, memory_bytes, 2e9);
  DeviceClass slow = cluster.devices[0];
  slow.name = "slow";
  slow.memory_bytes /= 2;
  slow.bandwidth[0].bytes_per_second /= 2;
  slow.flops_per_second[DType::f32] /= 2;
  slow.launch_seconds *= 2;
  cluster.devices.push_back(slow);
  cluster.hosts[0].across = "l";
  cluster.hosts.push_back(cluster.hosts[0]);
  cluster.hosts[1].device = "slow";
  return cluster;
}

// Ends by a number of simulations, never by time: a busy machine must find the same.
SearchResult quick_search(const Subject& subject, const Cluster& cluster, const Wish& wish = {}) {
  return search(subject, cluster, {.wish = wish, .effort = 24, .seconds = 1e9});
}

sim::SimReport simulated(const Subject& subject, const Cluster& cluster, const Choice& choice,
                         const Estimate& estimate) {
  return simulate(subject, cluster, choice, plan_of(choice, estimate.begins));
}

void hold_estimates_to_simulations(const Cluster& cluster) {
  const Subject subject = subject_of(small_gpt());
  const std::vector<Choice> choices = all_choices(subject, cluster);
  UnitCosts costs(subject, cluster);
  Estimator estimator(subject, cluster, costs);
  int looked = 0, far = 0;
  for (size_t i = 0; i < choices.size(); i += 37) {
    const Choice& choice = choices[i];
    if (costs.of(choice.split()).on.empty()) continue;
    const Estimate estimate = estimator.of(choice);
    const sim::SimReport report = simulated(subject, cluster, choice, estimate);
    const sim::RankReport& fullest = report.fullest();
    const double fill = static_cast<double>(fullest.memory.peak_bytes) / fullest.device->memory_bytes;
    EXPECT_LE(estimate.least_seconds, report.step_seconds * (1 + 1e-9)) << to_string(choice);
    EXPECT_LE(0.8 * estimate.fill(), fill) << to_string(choice);
    ++looked;
    if (std::abs(estimate.seconds / report.step_seconds - 1) > 0.3) ++far;
  }
  EXPECT_GE(looked, 20);
  EXPECT_LT(far, looked / 4);
}

TEST(Search, BoundsHoldAndEstimatesAreNear) {
  hold_estimates_to_simulations(cluster_of(4, 1e9, 2e9));
}

TEST(Search, BoundsHoldOnDevicesOfTwoClasses) {
  hold_estimates_to_simulations(mixed_cluster(1e9));
}

// Every estimate of those choices.
void hold_near(const Subject& subject, const Cluster& cluster,
               const std::function<bool(const Choice&)>& is_looked_at) {
  UnitCosts costs(subject, cluster);
  Estimator estimator(subject, cluster, costs);
  int looked = 0;
  for (const Choice& choice : all_choices(subject, cluster)) {
    if (!is_looked_at(choice)) continue;
    const Estimate estimate = estimator.of(choice);
    const double seconds = simulated(subject, cluster, choice, estimate).step_seconds;
    EXPECT_LE(estimate.least_seconds, seconds * (1 + 1e-9)) << to_string(choice);
    EXPECT_NEAR(estimate.seconds / seconds, 1, 0.2) << to_string(choice);
    ++looked;
  }
  EXPECT_GE(looked, 5);
}

// A microbatch has to pass all stages, however little each of them has to do.
TEST(Search, EstimatesOfFewMicrobatchesAreNear) {
  hold_near(subject_of(small_gpt()), cluster_of(4, 1e9, 2e9), [](const Choice& choice) {
    return choice.pipe == 4 && choice.microbatches <= 2 && choice.recompute == Recompute::Kind::kNone;
  });
}

// A head that is tied to the embedding: the first and the last stage send each other the gradient of a weight
// that takes longer on the link than the rest of the step.
TEST(Search, EstimatesOfWeightsThatStagesShareAreNear) {
  Config config = small_gpt();
  config.model.vocab = 8192;
  hold_near(subject_of(config), cluster_of(4, 1e9, 1e8), [](const Choice& choice) {
    return choice.pipe == 2 && choice.data == 2 && choice.rows == 2 && choice.chunks == 1 &&
           choice.sharing != "zero3" && choice.recompute == Recompute::Kind::kNone;
  });
}

// Where a host's ranks each send a part to the next host, the link between hosts takes less.
TEST(Search, EstimatesOfBoundariesInPartsAreNear) {
  Config config = small_gpt();
  config.model.hidden = 256;
  hold_near(subject_of(config), two_hosts(1e11, 2e8), [](const Choice& choice) {
    return choice.boundaries == Plan::Boundaries::kParts && choice.layouts.empty() && choice.rows == 2 &&
           choice.chunks == 1 && choice.recompute == Recompute::Kind::kNone;
  });
}

// A model that is smaller than its messages is fastest on one device.
TEST(Search, FewerDevicesMayBeFaster) {
  Config config = small_gpt();
  config.train.batch = 8;
  const Subject subject = subject_of(config);
  const Cluster cluster = cluster_of(4, 1e9, 1e5);
  const Wish wish = parse_wish("tensor=1,recompute=none");
  const SearchResult all = search(subject, cluster, {.wish = wish, .effort = 16, .seconds = 1e9});
  const SearchResult any =
      search(subject, cluster, {.wish = wish, .devices = Devices::kAny, .effort = 16, .seconds = 1e9});
  EXPECT_EQ(all.best().choice.ranks(), 4);
  EXPECT_EQ(any.best().choice.ranks(), 1);
  EXPECT_LT(any.best().report.step_seconds, all.best().report.step_seconds);
  EXPECT_LE(any.least_seconds, any.best().report.step_seconds);
  const double tokens = 8 * 32;
  EXPECT_NEAR(3600 * budget_of(any.best(), subject, cluster, tokens).device_hours,
              any.best().report.step_seconds, 1e-9);
  // A batch that four devices do not divide.
  config.train.batch = 2;
  config.model.layers = 1;
  const Cluster many = cluster_of(64, 1e9, 1e9);
  const Wish data = parse_wish("tensor=1,pipe=1");
  EXPECT_THROW(search(subject_of(config), many, {.wish = data}), Error);
  EXPECT_NO_THROW(search(subject_of(config), many,
                         {.wish = data, .devices = Devices::kAny, .effort = 2, .seconds = 1e9}));
}

// Ranks of the tensor axis that have rows of their own are as long at work as those of the data axis.
TEST(Search, EstimatesOfSharedRowsAreNear) {
  Config config;
  config.model.family = "resnet";
  config.model.layers = 8;
  config.model.classes = 10;
  config.train.batch = 32;
  config.train.threads = 1;
  hold_near(plan_subject(config, Shape{3, 16, 16}), cluster_of(4, 1e9, 2e9), [](const Choice& choice) {
    return choice.tensor == 4 && choice.tensor_preset == "hybrid_cnn" && choice.layouts.empty();
  });
}

TEST(Search, SlowDevicesGetFewerLayers) {
  const Subject subject = subject_of(small_gpt());
  const Cluster cluster = mixed_cluster(1e9);
  const Found best =
      quick_search(subject, cluster, parse_wish("tensor=1,pipe=2,schedule=1f1b,recompute=none")).best();
  ASSERT_EQ(best.plan.stages.size(), 1u);
  const auto begin = std::ranges::find(subject.units, best.plan.stages[0]);
  const auto fast_units = begin - subject.units.begin(), slow_units = subject.units.end() - begin;
  EXPECT_GT(fast_units, slow_units);
  // An even cut of the same plan is slower.
  Estimate even = best.estimate;
  even.begins = {subject.units[subject.units.size() / 2]};
  EXPECT_GT(simulated(subject, cluster, best.choice, even).step_seconds, 1.1 * best.report.step_seconds);
}

// Replicas of the model are as large everywhere: the devices with half of the memory decide.
TEST(Search, TheSmallestDevicesDecideWhatFits) {
  const Subject subject = subject_of(small_gpt());
  const Wish replicas = parse_wish("data=4,sharing=data,rows=1,recompute=full");
  const Found roomy = quick_search(subject, mixed_cluster(1e9), replicas).best();
  EXPECT_EQ(roomy.estimate.memory_bytes, 5e8);
  const double needed = static_cast<double>(roomy.report.fullest().memory.peak_bytes);
  EXPECT_NO_THROW(quick_search(subject, mixed_cluster(2.1 * needed), replicas));
  EXPECT_THROW(quick_search(subject, mixed_cluster(1.9 * needed), replicas), Error);
}

TEST(Search, FindsTheFastestThatFits) {
  Config config = small_gpt(/*layers=*/2);
  config.train.batch = 4;
  const Subject subject = subject_of(config);
  const Cluster cluster = cluster_of(2, 1e9, 2e9);
  const SearchResult result = search(subject, cluster, {.seconds = 1e9});
  UnitCosts costs(subject, cluster);
  Estimator estimator(subject, cluster, costs);
  double best = std::numeric_limits<double>::infinity();
  for (const Choice& choice : all_choices(subject, cluster)) {
    if (costs.of(choice.split()).on.empty()) continue;
    best = std::min(best, simulated(subject, cluster, choice, estimator.of(choice)).step_seconds);
  }
  EXPECT_LE(result.best().report.step_seconds, 1.02 * best);
  EXPECT_LE(result.least_seconds, best * (1 + 1e-9));
  EXPECT_GE(result.gap(), 0);
}

// Products of few rows are a little faster here: more microbatches gain less than a hundredth.
TEST(Search, TakesFewMicrobatchesWhereMoreGainNothing) {
  Cluster cluster = cluster_of(2, 1e9, 1e14);
  cluster.links[0].alpha_seconds = 1e-9;
  cluster.devices[0].launch_seconds = 0;
  cluster.devices[0].bandwidth = {{0, 1e14}};
  cluster.devices[0].products = {.m = {32, 256}, .n = {1}, .k = {1}, .efficiency = {0.9, 0.895}};
  const SearchResult result = quick_search(subject_of(small_gpt()), cluster, parse_wish("tensor=1,pipe=1"));
  const Found& best = result.best();
  double fastest = best.report.step_seconds;
  for (const Found& found : result.fitting) fastest = std::min(fastest, found.report.step_seconds);
  EXPECT_LT(fastest, best.report.step_seconds);
  EXPECT_LE(best.report.step_seconds, 1.01 * fastest);
  EXPECT_EQ(best.choice.microbatches, 1);
}

TEST(Search, MemoryDecides) {
  const Subject subject = subject_of(small_gpt());
  const Wish wish = parse_wish("tensor=1");
  const Found roomy = quick_search(subject, cluster_of(4, 1e9, 1e9), wish).best();
  const double needed = static_cast<double>(roomy.report.fullest().memory.peak_bytes);
  // Less than it takes: another plan is found, which fits and is slower.
  const Found tight = quick_search(subject, cluster_of(4, 0.7 * needed, 1e9), wish).best();
  EXPECT_LE(static_cast<double>(tight.report.fullest().memory.peak_bytes), 0.7 * needed);
  EXPECT_GT(tight.report.step_seconds, roomy.report.step_seconds);
  try {
    quick_search(subject, cluster_of(4, 1e5, 1e9), wish);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("nothing fits"));
    EXPECT_THAT(error.what(), HasSubstr("too much"));
  }
}

TEST(Search, StatesAreOffloadedWhereNothingFitsWithout) {
  const Subject subject = subject_of(small_gpt());
  double memory = 8e6;  // a device; then a little too small
  const auto fits = [&](double offload_bytes_per_second) {
    Cluster cluster = cluster_of(2, memory, 2e9);
    cluster.devices[0].offload_bytes_per_second = offload_bytes_per_second;
    try {
      return std::optional(
          search(subject, cluster, {.wish = parse_wish("tensor=1"), .effort = 8, .seconds = 1e9}));
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("nothing fits"));
      return std::optional<SearchResult>();
    }
  };
  while (const auto found = fits(0)) {
    EXPECT_EQ(found->best().choice.offload, Choice::Offload::kNothing);
    EXPECT_TRUE(fits(1e10)->best().choice == found->best().choice);
    memory *= 0.8;
  }
  const std::optional<SearchResult> offloaded = fits(1e10);
  ASSERT_TRUE(offloaded);
  EXPECT_NE(offloaded->best().choice.offload, Choice::Offload::kNothing);
  EXPECT_TRUE(offloaded->best().plan.offload);
  EXPECT_LE(static_cast<double>(offloaded->best().report.fullest().memory.peak_bytes), memory);
  EXPECT_GT(offloaded->best().report.ranks[0].time.offload_bytes, 0);
}

TEST(Search, AWishIsHeldToOrRefused) {
  const Subject subject = subject_of(small_gpt());
  const Cluster cluster = cluster_of(4, 1e9, 1e9);
  const SearchResult held = quick_search(subject, cluster, parse_wish("tensor=2,pipe=2,recompute=none"));
  for (const Found& found : held.fitting) EXPECT_EQ(to_string(found.plan.mesh), "pipe:2 tensor:2");
  EXPECT_THROW(quick_search(subject, cluster, parse_wish("tensor=3")), Error);
  EXPECT_THROW(parse_wish("tensr=2"), Error);
  EXPECT_THROW(parse_wish("tensor"), Error);
}

TEST(Search, StoppedBeforeItBeginsItSaysSo) {
  const std::atomic<bool> stop{true};
  EXPECT_THROW(search(subject_of(small_gpt()), cluster_of(2, 1e9, 1e9), {.stop = &stop}), Interrupted);
}

// The answer depends on the effort alone: not on threads, which end in any order, and not on how long
// Programs take to build on a busy machine.
TEST(Search, ThreadsAndDelaysFindTheSame) {
  const Subject subject = subject_of(small_gpt());
  const Cluster cluster = cluster_of(4, 4e6, 1e8);
  Subject delayed = subject;
  std::atomic<int> asked{0};
  delayed.programs = [&](const Plan& plan, const BatchShape& shape, Subject::Model model) {
    if (model == Subject::Model::kWhole)
      std::this_thread::sleep_for(std::chrono::milliseconds(asked++ * 7 % 20));
    return subject.programs(plan, shape, model);
  };
  const SearchOptions options{
      .wish = parse_wish("recompute=none"), .effort = 12, .seconds = 1e9, .threads = 1};
  SearchOptions five = options;
  five.threads = 5;
  const SearchResult one = search(subject, cluster, options), other = search(delayed, cluster, five);
  EXPECT_GE(asked, 4);
  ASSERT_EQ(one.fitting.size(), other.fitting.size());
  for (size_t i = 0; i < one.fitting.size(); ++i) {
    EXPECT_EQ(to_json(one.fitting[i].plan), to_json(other.fitting[i].plan));
    EXPECT_EQ(one.fitting[i].report.step_seconds, other.fitting[i].report.step_seconds);
  }
  EXPECT_EQ(one.end, other.end);
  EXPECT_EQ(one.least_seconds, other.least_seconds);
  EXPECT_EQ(one.too_large, other.too_large);
  EXPECT_EQ(one.simulated, other.simulated);
}

// Ended in the middle: the plan is one that was simulated, and nothing is claimed of the others.
TEST(Search, StoppedInTheMiddleItClaimsNothing) {
  std::atomic<bool> stop{false};
  const SearchResult result = search(subject_of(small_gpt()), cluster_of(4, 1e9, 1e9),
                                     {.wish = parse_wish("tensor=1"),
                                      .effort = 1000,
                                      .seconds = 1e9,
                                      .stop = &stop,
                                      .progress = [&](const SearchProgress& progress) {
                                        if (progress.best_seconds > 0) stop = true;
                                      }});
  EXPECT_EQ(result.end, SearchResult::End::kStopped);
  EXPECT_GE(result.simulated, 1);
  EXPECT_LT(result.simulated, 20);
  EXPECT_LE(result.least_seconds, result.best().report.step_seconds);
}

// Of a round of four on two threads, the first plan takes until the last one begins, when the search is
// ended: what the two between them showed counts all the same.
TEST(Search, WhatIsDoneWhenItEndsCounts) {
  Subject subject = subject_of(small_gpt());
  std::atomic<bool> stop{false};
  std::atomic<int> begun{0};
  subject.programs = [&, programs = subject.programs](const Plan& plan, const BatchShape& shape,
                                                      Subject::Model model) {
    const int number = model == Subject::Model::kWhole ? begun++ : -1;
    while (number == 0 && begun < 4) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (number == 3) stop = true;
    return programs(plan, shape, model);
  };
  const SearchResult result = search(
      subject, cluster_of(4, 1e9, 1e9),
      {.wish = parse_wish("tensor=1,pipe=1"), .effort = 4, .seconds = 1e9, .threads = 2, .stop = &stop});
  EXPECT_EQ(result.end, SearchResult::End::kStopped);
  EXPECT_GE(result.simulated, 2);
}

TEST(Search, SlowLinksKeepDataParallelismApart) {
  // Messages of a pipeline are small beside gradients of a whole model.
  Config config = small_gpt();
  config.train.batch = 64;
  const Wish wish = parse_wish("tensor=1,recompute=none");
  const Found slow = quick_search(subject_of(config), cluster_of(4, 1e9, 5e6), wish).best();
  EXPECT_GT(slow.choice.pipe, 1);
  const Found fast = quick_search(subject_of(config), cluster_of(4, 1e9, 1e12), wish).best();
  EXPECT_EQ(fast.choice.pipe, 1);
  EXPECT_EQ(fast.choice.data, 4);
}

// Two hosts of two devices: between hosts slowly, a part each is faster; where hosts are joined as well as
// their devices are, gathers cost more than messages save.
TEST(Search, LinksDecideHowBoundariesAreSent) {
  Config config = small_gpt();
  config.model.hidden = 256;
  const Subject subject = subject_of(config);
  const auto best = [&](double inside, double between) {
    const Wish wish = parse_wish("tensor=2,pipe=2,tensor_preset=megatron,recompute=none");
    return quick_search(subject, two_hosts(inside, between), wish).best();
  };
  const Found apart = best(1e11, 5e7);
  EXPECT_EQ(apart.choice.boundaries, Plan::Boundaries::kParts) << to_string(apart.choice);
  EXPECT_EQ(apart.plan.boundaries, Plan::Boundaries::kParts);
  EXPECT_THAT(to_string(apart.choice), HasSubstr("boundaries in parts"));
  const Found near = best(1e8, 1e10);
  EXPECT_EQ(near.choice.boundaries, Plan::Boundaries::kWhole) << to_string(near.choice);
}

// 80 MB of gradients: with a link that takes a millisecond to begin, few large collectives are faster, and
// with one that takes no time nothing is gained.
TEST(Search, LatencyAsksForLargeBuckets) {
  Config config = small_gpt();
  config.model.hidden = 512;
  const Subject subject = subject_of(config);
  const auto best = [&](double alpha_seconds) {
    Cluster cluster = cluster_of(4, 1e9, 1e12);
    cluster.links[0].alpha_seconds = alpha_seconds;
    return search(subject, cluster,
                  {.wish = parse_wish("data=4,microbatches=1,sharing=zero1,recompute=none"), .seconds = 1e9});
  };
  const SearchResult late = best(1e-3);
  ASSERT_TRUE(late.best().plan.bucket_kib);
  EXPECT_GE(*late.best().plan.bucket_kib, 16384);
  ASSERT_GE(late.fitting.size(), 2u);
  EXPECT_LT(1.01 * late.best().report.step_seconds, late.fitting[1].report.step_seconds);
  EXPECT_LE(late.least_seconds, late.best().report.step_seconds);
  EXPECT_FALSE(best(0).best().plan.bucket_kib);
}

TEST(Report, ABudgetIsTimeTimesDevices) {
  const Subject subject = subject_of(small_gpt());
  const Cluster cluster = cluster_of(4, 1e9, 1e9);
  const Found found = quick_search(subject, cluster, parse_wish("data=4,microbatches=1")).best();
  const double tokens = 3.6e9;
  const Budget budget = budget_of(found, subject, cluster, tokens);
  const double hours = tokens / (16 * 32) * found.report.step_seconds / 3600;
  EXPECT_NEAR(budget.days, hours / 24, 1e-9 * hours);
  EXPECT_NEAR(budget.device_hours, 4 * hours, 1e-9 * hours);
  EXPECT_NEAR(budget.kilowatt_hours, 0.4 * hours, 1e-9 * hours);
  EXPECT_NEAR(budget.money, 8 * hours, 1e-9 * hours);
}

// Failures and slow devices make a run longer, and only that.
TEST(Report, ABudgetKnowsWhatBefallsARun) {
  const Subject subject = subject_of(small_gpt());
  const Cluster cluster = cluster_of(4, 1e9, 1e9);
  const Found found = quick_search(subject, cluster, parse_wish("data=4,microbatches=1")).best();
  const Budget quiet = budget_of(found, subject, cluster, 1e9);
  const sim::Failures failures = sim::parse_failures("mtbf=40h,checkpoint=60s,restart=5min");
  const Budget failing = budget_of(found, subject, cluster, 1e9, {.failures = failures});
  const double share = sim::goodput_of(failures, 4).share;
  EXPECT_LT(share, 0.95);
  EXPECT_NEAR(failing.days, quiet.days / share, 1e-9 * quiet.days);
  EXPECT_NEAR(failing.money, quiet.money / share, 1e-9 * quiet.money);
  EXPECT_EQ(failing.step_seconds, found.report.step_seconds);
  const Budget jittery = budget_of(found, subject, cluster, 1e9, {.jitter = 0.2});
  EXPECT_GT(jittery.step_seconds, 1.05 * found.report.step_seconds);
  EXPECT_NEAR(jittery.days / quiet.days, jittery.step_seconds / found.report.step_seconds, 1e-9);
}

// Two devices that only wait for one another, and then two whose link takes no time.
TEST(Report, SensitivityNamesWhatDecides) {
  const Subject subject = subject_of(small_gpt());
  const auto slower_by = [&](double link_bytes_per_second, std::string_view what) {
    const Cluster cluster = cluster_of(2, 1e9, link_bytes_per_second);
    const Found found = quick_search(subject, cluster, parse_wish("data=2,microbatches=1")).best();
    for (const Sensitivity& one : sensitivity_of(found, subject, cluster)) {
      if (one.what.starts_with(what)) return one.seconds / found.report.step_seconds - 1;
    }
    ADD_FAILURE() << what;
    return 0.0;
  };
  EXPECT_NEAR(slower_by(1e5, "link l: a quarter"), 1 / 0.75 - 1, 0.01);
  EXPECT_NEAR(slower_by(1e5, "d: a quarter of its peak"), 0, 0.01);
  EXPECT_NEAR(slower_by(1e14, "link l: a quarter"), 0, 0.01);
  EXPECT_GT(slower_by(1e14, "one device twice"), 0.8);
}

TEST(Choice, PlansReadBackAsTheyWere) {
  const Subject subject = subject_of(small_gpt());
  const std::vector<Choice> choices = all_choices(subject, cluster_of(8, 1e9, 1e9));
  ASSERT_GT(choices.size(), 500u);
  for (const Choice& choice : choices) {
    EXPECT_EQ(choice.ranks(), 8);
    EXPECT_EQ(choice.rows * choice.row_parts() * choice.microbatches, subject.batch);
    const Plan plan = plan_of(choice, {});
    EXPECT_EQ(to_json(parse_plan(to_json(plan), "test")), to_json(plan)) << to_string(choice);
  }
}

}  // namespace
}  // namespace trireme::planner
