// Estimates and the search against figures that were worked out on paper, of small models on devices for
// which products of matrices alone take time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/ops/table.h"
#include "trireme/planner/search.h"
#include "trireme/run/plan_subject.h"

namespace trireme::planner {
namespace {

// Layers of 8 inputs and 8 outputs. Of one row the product of a layer has 2 · 8 · 8 = 128 FLOPs: 1 s forward,
// and 1 s each for the gradients of its weights and of its inputs, which the first layer has no need of. A
// layer has 8 · 8 + 8 parameters, 288 bytes; the 8 values between two layers are 32 bytes.
Subject layers_of_8(int64_t layers, int64_t batch, const std::string& precision = "f32") {
  Config config;
  config.model.family = "mlp";
  config.model.layers = layers;
  config.model.hidden = 8;
  config.model.classes = 8;
  config.train.batch = batch;
  config.train.threads = 1;
  config.train.clip_norm = 0;
  config.train.precision = precision;
  config.optim.kind = "sgd";
  return plan_subject(config, Shape{1, 2, 4});
}

// Four tokens of 8 features, one block, 16 words.
Subject one_block(int64_t batch) {
  Config config;
  config.model.family = "gpt";
  config.model.layers = 1;
  config.model.heads = 2;
  config.model.hidden = 8;
  config.model.vocab = 16;
  config.model.seq = 4;
  config.train.batch = batch;
  config.train.threads = 1;
  return plan_subject(config, Shape{4});
}

// One host of devices that do 128 FLOPs of products a second, and everything else at once.
Cluster paper_cluster(int devices, double link_bytes_per_second) {
  DeviceClass device{.name = "device",
                     .kind = "paper",
                     .memory_bytes = 1e9,
                     .bandwidth = {{0, 1e30}},
                     .flops_per_second = {{DType::f32, 128}}};
  for (const std::string& op : ops().names()) {
    if (op != "matmul") device.ops.emplace(op, 1e30);
  }
  return {.name = "paper",
          .devices = {device},
          .hosts = {{.device = "device", .devices = devices, .inside = "wire"}},
          .links = {{.name = "wire", .bytes_per_second = link_bytes_per_second}}};
}

Estimate estimate_of(const Subject& subject, const Cluster& cluster, const Choice& choice) {
  UnitCosts costs(subject, cluster);
  return Estimator(subject, cluster, costs).of(choice);
}

double simulated_seconds(const Subject& subject, const Cluster& cluster, const Choice& choice,
                         const Estimate& estimate) {
  return simulate(subject, cluster, choice, plan_of(choice, estimate.begins)).step_seconds;
}

// Two stages of one layer: 1 + 1 s and 1 + 2 s, and 10 s for a message, so 25 s there and back. 1f1b has two
// microbatches under way, so that 0 and 2 of four go one after another, and 0, 2 and 4 of five. Played on
// paper the last backward of five ends at 75, and that of four, which waits for the one before it, at 53; the
// clock adds what the stages say of the loss.
TEST(EstimateByHand, RoundTripsOf1f1bFollowOneAnother) {
  const Cluster cluster = paper_cluster(2, 3.2);
  for (const auto& [microbatches, seconds] : {std::pair(4, 53.0), std::pair(5, 75.0)}) {
    const Subject subject = layers_of_8(2, microbatches);
    const Choice choice{.pipe = 2, .microbatches = microbatches, .schedule = "1f1b"};
    const Estimate estimate = estimate_of(subject, cluster, choice);
    EXPECT_NEAR(estimate.least_seconds, seconds, 1e-9) << microbatches;
    const double simulated = simulated_seconds(subject, cluster, choice, estimate);
    EXPECT_GE(simulated, seconds) << microbatches;
    EXPECT_LT(simulated, seconds + 20) << microbatches;
  }
}

// Of five microbatches zb_h2 has 2 · 2 − 1 under way on the first of two stages, and zb_h1 has 2, so that it
// keeps less. Of two there are no more than two.
TEST(EstimateByHand, StashesOfZbH2) {
  const Cluster cluster = paper_cluster(2, 3.2);
  const auto bytes = [&](const char* schedule, int64_t microbatches) {
    return estimate_of(layers_of_8(2, microbatches), cluster,
                       {.pipe = 2, .microbatches = microbatches, .schedule = schedule})
        .bytes;
  };
  EXPECT_GE(bytes("zb_h2", 5) - bytes("zb_h1", 5), 64);
  EXPECT_DOUBLE_EQ(bytes("zb_h2", 2) - bytes("zb_h1", 2), 0);
}

// On two ranks at 1 byte a second. Gradients of two layers, the loss and its count are 584 bytes in f32, half
// of which a rank sends to sum them up: 292 s. Weights are gathered before the forward and the backward part,
// 288 s each in f32, and 144 s in bf16, to which they are cast before. Work takes 5 s, beside it.
TEST(EstimateByHand, Zero3GathersWhatItComputesWith) {
  const Choice choice{.data = 2, .sharing = "zero3"};
  const Cluster cluster = paper_cluster(2, 1);
  for (const auto& [precision, seconds] : {std::pair("f32", 292.0 + 2 * 288), {"bf16", 292.0 + 2 * 144}}) {
    SCOPED_TRACE(precision);
    const Subject subject = layers_of_8(2, 2, precision);
    const Estimate estimate = estimate_of(subject, cluster, choice);
    EXPECT_NEAR(estimate.seconds, seconds, 1e-9);
    // The first layer's weights need not be gathered again: 128 s less in f32.
    EXPECT_NEAR(estimate.least_seconds, 5, 1e-9);
    EXPECT_GE(simulated_seconds(subject, cluster, choice, estimate), estimate.least_seconds);
  }
}

// 16 · 8 for the table, 4 · 8 for positions, 16 for each of three norms, 8 · 24 + 24, 8 · 8 + 8, 8 · 32 + 32
// and 32 · 8 + 8 in the block: 1048 parameters. The table is read at both ends and summed up once, with all
// others, the loss and its count: 4 · 1048 + 8 bytes, a second each.
TEST(EstimateByHand, AWeightThatIsReadTwiceIsSummedUpOnce) {
  Cluster cluster = paper_cluster(2, 1);
  cluster.devices[0].flops_per_second = {{DType::f32, 1e30}};
  const Subject subject = one_block(4);
  const Choice choice{.data = 2, .microbatches = 2};
  const Estimate estimate = estimate_of(subject, cluster, choice);
  EXPECT_NEAR(estimate.least_seconds, 4200, 1e-6);
  EXPECT_GE(simulated_seconds(subject, cluster, choice, estimate), 4200 - 1e-6);
}

// A block has two sums of 4 · 8 values forward, 128 bytes each, over two ranks of one host: 256 s over wires
// of 1 byte a second, and 64 s over those of 4, whichever hosts come first.
TEST(UnitCostsByHand, UnitsMeetOverTheLinksOfTheirHosts) {
  Cluster cluster = paper_cluster(2, 1);
  cluster.devices[0].flops_per_second = {{DType::f32, 1e30}};
  cluster.devices.push_back(cluster.devices[0]);
  cluster.devices[1].name = "other";
  cluster.links.push_back({.name = "wide", .bytes_per_second = 4});
  cluster.hosts.push_back({.device = "other", .devices = 2, .inside = "wide"});
  for (HostClass& host : cluster.hosts) host.across = "wire";
  const Subject subject = one_block(2);
  UnitCosts costs(subject, cluster);
  const UnitCosts::Table& table = costs.of({.tensor = 2, .preset = "megatron"});
  ASSERT_EQ(table.on.size(), 2u) << table.why;
  const auto block = std::ranges::find(subject.small_units, "h.0") - subject.small_units.begin();
  EXPECT_NEAR(table.on[0][static_cast<size_t>(block)].forward.seconds, 256, 1e-9);
  EXPECT_NEAR(table.on[1][static_cast<size_t>(block)].forward.seconds, 64, 1e-9);
}

// Two layers, and what stands before and behind them, are four units: as many stages, or two stages of two
// chunks, and no more.
TEST(ChoiceByHand, EveryUnitCanBeAChunk) {
  const Subject subject = layers_of_8(2, 4);
  ASSERT_EQ(subject.units.size(), 4u);
  int most_chunks = 0, most_stages = 0;
  for (const Choice& choice : all_choices(subject, paper_cluster(2, 1)))
    if (choice.pipe == 2) most_chunks = std::max(most_chunks, choice.chunks);
  for (const Choice& choice : all_choices(subject, paper_cluster(4, 1)))
    most_stages = std::max(most_stages, choice.pipe);
  EXPECT_EQ(most_chunks, 2);
  EXPECT_EQ(most_stages, 4);
}

// Whatever could be faster than the best by its bound is simulated, or the end is not proved.
TEST(SearchByHand, BoundsDecideWhatIsLeftOut) {
  const Subject subject = layers_of_8(4, 4);
  const Cluster cluster = paper_cluster(2, 3.2);
  const SearchOptions options{
      .wish = parse_wish("pipe=2,rows=1,recompute=none"), .seconds = 1e9, .threads = 1};
  const SearchResult result = search(subject, cluster, options);
  const double best = result.best().report.step_seconds;
  int64_t may_be_faster = 0;
  for (const Candidate& candidate : candidates(subject, cluster, options)) {
    if (candidate.estimate.least_seconds >= best) continue;
    ++may_be_faster;
  }
  EXPECT_GE(may_be_faster, 1);
  EXPECT_GE(result.simulated, may_be_faster);
  EXPECT_EQ(result.end, SearchResult::End::kProved);
  EXPECT_DOUBLE_EQ(result.least_seconds, best);
}

}  // namespace
}  // namespace trireme::planner
