// Closed forms and Steps, against one another and against α and β by hand.
#include "trireme/sim/collective_time.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trireme/mesh/cluster_file.h"

namespace trireme::sim {
namespace {

TEST(CollectiveTimes, ARingByHand) {
  const Cluster cluster = read_cluster("a100");
  const Mesh mesh = parse_mesh("tensor:8");
  const DeviceMap device_map(mesh, cluster);
  CollectiveTimes times(device_map, CollectiveModel::kClosedForms, {{"tensor", comm::Algorithm::ring}});
  const Path path = device_map.path(0, 1);
  const double bytes = 1 << 26;
  EXPECT_NEAR(times.seconds(times.group_class(0, 0), CollectiveKind::kAllReduce, bytes),
              14 * path.alpha_seconds + 14.0 / 8 * bytes * path.beta_seconds_per_byte, 1e-12);
  EXPECT_NEAR(times.seconds(times.group_class(0, 0), CollectiveKind::kAllGather, bytes),
              7 * path.alpha_seconds + 7.0 / 8 * bytes * path.beta_seconds_per_byte, 1e-12);
  EXPECT_NEAR(times.seconds(times.group_class(0, 0), CollectiveKind::kShift, bytes),
              path.alpha_seconds + bytes * path.beta_seconds_per_byte, 1e-12);
}

TEST(CollectiveTimes, ClosedFormsAndStepsAgreeOnAnIdleNetwork) {
  const Cluster cluster = with_hosts(read_cluster("a100"), 8);
  for (const char* text : {"tensor:2", "tensor:8", "data:4 tensor:8", "data:6 tensor:8", "data:32", "data:64",
                           "pipe:2 data:3 tensor:4"}) {
    const Mesh mesh = parse_mesh(text);
    const DeviceMap device_map(mesh, cluster);
    CollectiveTimes closed(device_map, CollectiveModel::kClosedForms, {}),
        steps(device_map, CollectiveModel::kSteps, {});
    for (int axis = 0; axis < static_cast<int>(mesh.axes().size()); ++axis) {
      for (const CollectiveKind kind : {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter,
                                        CollectiveKind::kAllGather, CollectiveKind::kAllToAll}) {
        for (const double bytes : {4096.0, 3.0 * (1 << 20), 3.0 * (1 << 28)}) {
          SCOPED_TRACE(fmt::format("{} axis {} {} {}", text, axis, name(kind), bytes));
          const double a = closed.seconds(closed.group_class(0, axis), kind, bytes);
          const double b = steps.seconds(steps.group_class(0, axis), kind, bytes);
          // In the all-gather of two levels, messages inside that could go early keep some across waiting.
          const bool waits = kind == CollectiveKind::kAllGather && mesh.axes()[axis].size > 8;
          EXPECT_NEAR(a / b, 1, waits ? 0.06 : 0.02);
        }
      }
    }
  }
}

// An all-reduce of two levels is a reduce-scatter and an all-gather of two levels, but for the latency of
// messages that their parts of ranks have more.
TEST(CollectiveTimes, HalvesOfAnAllReduceTakeWhatItTakes) {
  const Cluster cluster = with_hosts(read_cluster("a100"), 4);
  const Mesh mesh = parse_mesh("data:32");
  const DeviceMap device_map(mesh, cluster);
  CollectiveTimes times(device_map, CollectiveModel::kClosedForms, {});
  const int group = times.group_class(0, 0);
  const double bytes = 1 << 28;
  const double whole = times.seconds(group, CollectiveKind::kAllReduce, bytes);
  const double scatter = times.seconds(group, CollectiveKind::kReduceScatter, bytes);
  const double gather = times.seconds(group, CollectiveKind::kAllGather, bytes);
  const double inside = device_map.path(0, 1).alpha_seconds;
  EXPECT_NEAR(scatter + gather, whole + 2 * 7 * (4 - 1) * inside, 1e-9);
  const double sent = 31.0 / 32 * bytes;
  const PerReach reaches = times.reaches(group, CollectiveKind::kReduceScatter, bytes, sent);
  EXPECT_DOUBLE_EQ(reaches[0], 7.0 / 8 * bytes);
  EXPECT_DOUBLE_EQ(reaches[0] + reaches[1], sent);
}

// Bytes over links add up to what was sent, and a group in one host sends none across.
// Without looking at every pair of them, of which there are 400 million.
TEST(CollectiveTimes, ThousandsOfRanks) {
  Cluster cluster = with_hosts(read_cluster("a100"), 2500);
  cluster.hosts_per_leaf = 20;
  cluster.oversubscription = 2;
  const Mesh mesh = parse_mesh("data:20000");
  const DeviceMap device_map(mesh, cluster);
  EXPECT_TRUE(device_map.is_symmetric());
  CollectiveTimes times(device_map, CollectiveModel::kClosedForms, {{"data", comm::Algorithm::ring}});
  const Path path = device_map.path(0, 19999);
  EXPECT_EQ(path.reach, Reach::kSpine);
  const double bytes = 1 << 26;
  EXPECT_NEAR(times.seconds(times.group_class(0, 0), CollectiveKind::kAllGather, bytes),
              19999 * path.alpha_seconds + 19999.0 / 20000 * bytes * path.beta_seconds_per_byte, 1e-9);
  const PerReach reaches = times.reaches(times.group_class(0, 0), CollectiveKind::kAllGather, bytes, 20000);
  EXPECT_NEAR(reaches[0], 7 * 2500, 1e-6);
  EXPECT_NEAR(reaches[1], 2500 - 125, 1e-6);
  EXPECT_NEAR(reaches[2], 125, 1e-6);
}

TEST(CollectiveTimes, BytesGoOverLinks) {
  const Cluster cluster = with_hosts(read_cluster("a100"), 4);
  const Mesh mesh = parse_mesh("data:4 tensor:8"), flat = parse_mesh("data:32");
  const DeviceMap device_map(mesh, cluster), all(flat, cluster);
  CollectiveTimes times(device_map, CollectiveModel::kClosedForms, {}),
      of_all(all, CollectiveModel::kClosedForms, {});
  const double bytes = 1e9;
  const auto sent = [&](double ranks) { return 2 * (ranks - 1) / ranks * bytes; };
  const PerReach data = times.reaches(times.group_class(0, 0), CollectiveKind::kAllReduce, bytes, sent(4));
  EXPECT_EQ(data, (PerReach{0, sent(4), 0}));
  const PerReach tensor = times.reaches(times.group_class(0, 1), CollectiveKind::kAllReduce, bytes, sent(8));
  EXPECT_EQ(tensor, (PerReach{sent(8), 0, 0}));
  const PerReach levels =
      of_all.reaches(of_all.group_class(0, 0), CollectiveKind::kAllReduce, bytes, sent(32));
  EXPECT_DOUBLE_EQ(levels[0] + levels[1], sent(32));
  EXPECT_DOUBLE_EQ(levels[0], sent(8));  // rings inside hosts, and across with an eighth of it
}

}  // namespace
}  // namespace trireme::sim
