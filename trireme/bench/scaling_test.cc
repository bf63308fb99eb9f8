// Points, efficiencies and repeats of scaling, on times that are made up; and the simulated side on a cluster
// whose answer is known.
#include "trireme/bench/scaling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/base/error.h"
#include "trireme/mesh/cluster_file.h"
#include "trireme/plan/plan.h"

namespace trireme::bench {
namespace {

using testing::HasSubstr;

TEST(Scaling, StrongKeepsTheBatchAndWeakTheRowsOfARank) {
  const std::vector<ScalingPoint> points = scaling_points({4, 1, 2, 2}, 8);
  ASSERT_EQ(points.size(), 6);
  const int ranks[] = {1, 2, 4, 1, 2, 4};
  const int64_t batches[] = {8, 8, 8, 8, 16, 32};
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(points[i].scaling, i < 3 ? Scaling::kStrong : Scaling::kWeak);
    EXPECT_EQ(points[i].ranks, ranks[i]);
    EXPECT_EQ(points[i].batch, batches[i]);
  }
  EXPECT_EQ(scaling_points({2, 4}, 8).back().batch, 16);
  try {
    scaling_points({1, 3}, 8);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("train.batch=9"));
  }
  EXPECT_THROW(scaling_points({}, 8), Error);
  EXPECT_THROW(scaling_points({0, 1}, 8), Error);
}

TEST(Scaling, EfficiencyIsOneWhereNothingIsLost) {
  // A tenth of a step does not get shorter, as Amdahl has it; the clock knows of no loss.
  const auto measured = [](const ScalingPoint& p) {
    return 0.1 + 0.9 * static_cast<double>(p.batch) / 8 / p.ranks;
  };
  const auto ideal = [](const ScalingPoint& p) { return static_cast<double>(p.batch) / 8 / p.ranks; };
  const auto points = measure_scaling(scaling_points({1, 2, 4}, 8), 1, measured, ideal);
  const std::vector<Efficiency> shares = efficiencies(points);
  EXPECT_DOUBLE_EQ(shares[0].measured, 1);
  EXPECT_DOUBLE_EQ(shares[1].measured, 1 / (0.55 * 2));
  EXPECT_DOUBLE_EQ(shares[2].measured, 1 / (0.325 * 4));
  for (size_t i = 3; i < 6; ++i) EXPECT_DOUBLE_EQ(shares[i].measured, 1);  // weak
  for (const Efficiency& share : shares) EXPECT_DOUBLE_EQ(share.simulated, 1);
  EXPECT_EQ(efficiencies(measure_scaling(scaling_points({1, 2}, 8), 1, measured, {}))[1].simulated, 0);
}

TEST(Scaling, TheLeastOfRepeatsStands) {
  std::vector<int> order;
  const auto measure = [&](const ScalingPoint& point) {
    order.push_back(point.ranks);
    return order.size() == 2 ? 5.0 : 1.0;  // a disturbed one
  };
  const auto points = measure_scaling(scaling_points({1, 2}, 2), 2, measure, {});
  EXPECT_THAT(order, testing::ElementsAre(1, 2, 1, 2, 1, 2, 1, 2)) << "in turns";
  for (const ScalingPoint& point : points) EXPECT_EQ(point.measured_seconds, 1);
}

TEST(Scaling, SimulatedWeakScalingLosesWhatTheLinksTake) {
  StepSource source;
  source.settings = {"model.layers=1", "model.hidden=32", "model.heads=2", "model.seq=16", "train.batch=4"};
  const auto seconds = [&](int ranks, double bytes_per_second) {
    StepSource at = source;
    at.settings.push_back(fmt::format("train.batch={}", 4 * ranks));
    const Plan plan = read_plan("data", ranks);
    Cluster cluster = read_cluster("a100");
    for (LinkClass& link : cluster.links) link.bytes_per_second = bytes_per_second;
    return simulated_step_seconds(set_up_step(at, plan), plan, cluster);
  };
  EXPECT_LT(seconds(1, 1e6), seconds(2, 1e6) / 2) << "slow links";
  EXPECT_GT(seconds(1, 1e12), seconds(2, 1e12) / 2) << "fast ones";
}

}  // namespace
}  // namespace trireme::bench
