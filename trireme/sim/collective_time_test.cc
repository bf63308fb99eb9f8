// Closed forms and Steps, against one another and against α and β by hand.
#include "trireme/sim/collective_time.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trireme/comm/collective/algorithms.h"
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

// Two hosts of two devices: 1 byte a second inside, 1/4 across, α 1 and 3 s.
Cluster two_by_two(bool levels_at_once) {
  return {.name = "paper",
          .devices = {{.name = "device",
                       .memory_bytes = 1,
                       .bandwidth = {{0, 1}},
                       .flops_per_second = {{DType::f32, 1}}}},
          .hosts = {{.device = "device",
                     .devices = 2,
                     .count = 2,
                     .inside = "near",
                     .across = "far",
                     .cards = 2,
                     .levels_at_once = levels_at_once}},
          .links = {{.name = "near", .alpha_seconds = 1, .bytes_per_second = 1},
                    {.name = "far", .alpha_seconds = 3, .bytes_per_second = 0.25}}};
}

// An all_gather of 80 bytes: inside, half of them is 40 s, with one message for each host; across, half of 40
// is 80 s. Latencies are 1 + 1 and 3 s. One after the other that is 125 s, at once 5 + 80. An all_reduce is
// that twice, but for the messages of the second host: 248 and 8 + 160. A ring takes 3 · 3 + 240 s.
TEST(CollectiveTimes, LevelsOneAfterTheOtherAndAtOnce) {
  const Mesh mesh = parse_mesh("data:4");
  for (const bool at_once : {false, true}) {
    const Cluster cluster = two_by_two(at_once);
    const DeviceMap device_map(mesh, cluster);
    CollectiveTimes times(device_map, CollectiveModel::kClosedForms, {});
    const int group = times.group_class(0, 0);
    EXPECT_NEAR(times.seconds(group, CollectiveKind::kAllGather, 80), at_once ? 85 : 125, 1e-9);
    EXPECT_NEAR(times.seconds(group, CollectiveKind::kReduceScatter, 80), at_once ? 85 : 125, 1e-9);
    EXPECT_NEAR(times.seconds(group, CollectiveKind::kAllReduce, 80), at_once ? 168 : 248, 1e-9);
  }
}

// An all_to_all of 80 bytes, of which 40 are for the other host: 3 + 160 s across, and of all 80 half to the
// neighbour, 1 + 40 s, which wait for what comes from there. Without passing on: 3 · 3 + 60 · 4 s. 20 bytes
// more are sent than each gives to others.
TEST(CollectiveTimes, AnAllToAllOfTwoLevels) {
  const Mesh mesh = parse_mesh("data:4");
  for (const bool at_once : {false, true}) {
    const Cluster cluster = two_by_two(at_once);
    const DeviceMap device_map(mesh, cluster);
    for (const CollectiveModel model : {CollectiveModel::kClosedForms, CollectiveModel::kAsRun}) {
      CollectiveTimes times(device_map, model, {});
      const int group = times.group_class(0, 0);
      const CollectiveKind kind = CollectiveKind::kAllToAll;
      if (model == CollectiveModel::kClosedForms) {
        EXPECT_NEAR(times.seconds(group, kind, 80), 204, 1e-9);
        EXPECT_NEAR(times.seconds(group, kind, 80, Parts::kUnequal), 249, 1e-9);
      }
      EXPECT_LT(times.seconds(group, kind, 80), times.seconds(group, kind, 80, Parts::kUnequal));
      EXPECT_EQ(times.reaches(group, kind, 80, 60), (PerReach{40, 40, 0}));
      EXPECT_EQ(times.passed_on_bytes(group, kind, 80), 20);
      EXPECT_EQ(times.reaches(group, kind, 80, 60, Parts::kUnequal), (PerReach{20, 40, 0}));
      EXPECT_EQ(times.passed_on_bytes(group, kind, 80, Parts::kUnequal), 0);
      EXPECT_EQ(times.passed_on_bytes(group, CollectiveKind::kAllReduce, 80), 0);
    }
  }
}

// What a transport counts, which is what the Steps say (tests/multirank).
TEST(CollectiveTimes, BytesOfAnAllToAllAreThoseOfItsSteps) {
  for (const auto& [host_count, on_each] : {std::pair(2, 4), {4, 2}, {3, 3}, {1, 8}, {8, 1}}) {
    Cluster cluster = two_by_two(false);
    cluster.hosts[0].devices = on_each;
    cluster.hosts[0].count = host_count;
    const int ranks = host_count * on_each;
    const Mesh mesh = parse_mesh(fmt::format("data:{}", ranks));
    const DeviceMap device_map(mesh, cluster);
    std::vector<int> hosts;
    for (int rank = 0; rank < ranks; ++rank) hosts.push_back(rank / on_each);
    for (const comm::Algorithm algorithm : {comm::Algorithm::naive, comm::Algorithm::hierarchical}) {
      SCOPED_TRACE(fmt::format("{} hosts of {}, {}", host_count, on_each, name(algorithm)));
      const size_t chunk = 12, bytes = chunk * ranks;
      const comm::Steps steps = comm::make_steps(comm::Collective::all_to_all, algorithm, ranks, 0, hosts);
      PerReach by_steps = {};
      for (const comm::Step& step : steps.of(0)) {
        if (step.kind == comm::Step::Kind::send)
          by_steps[static_cast<size_t>(hosts[step.peer] != hosts[0])] +=
              static_cast<double>(chunk) * step.count;
      }
      CollectiveTimes times(device_map, CollectiveModel::kClosedForms, {{"data", algorithm}});
      const int group = times.group_class(0, 0);
      const double given = static_cast<double>(bytes - chunk);
      const PerReach reaches = times.reaches(group, CollectiveKind::kAllToAll, bytes, given);
      for (size_t i = 0; i < reaches.size(); ++i) EXPECT_NEAR(reaches[i], by_steps[i], 1e-9) << i;
      EXPECT_NEAR(given + times.passed_on_bytes(group, CollectiveKind::kAllToAll, bytes),
                  by_steps[0] + by_steps[1], 1e-9);
    }
  }
}

// Four ranks, 80 bytes: a ring has 6 messages and 120 bytes on each link. Switches that add at twice the
// rate of the bus need 2 messages and 60 s; other collectives and a ring that is asked for have nothing of
// it.
TEST(CollectiveTimes, SwitchesThatAdd) {
  Cluster cluster = two_by_two(false);
  cluster.hosts[0].devices = 4;
  cluster.links[0].all_reduce_bytes_per_second = 2;
  const Mesh mesh = parse_mesh("tensor:4");
  const DeviceMap device_map(mesh, cluster);
  CollectiveTimes switches(device_map, CollectiveModel::kClosedForms, {});
  EXPECT_NEAR(switches.seconds(switches.group_class(0, 0), CollectiveKind::kAllReduce, 80), 2 + 60, 1e-9);
  EXPECT_NEAR(switches.seconds(switches.group_class(0, 0), CollectiveKind::kShift, 80), 1 + 80, 1e-9);
  CollectiveTimes ring(device_map, CollectiveModel::kClosedForms, {{"tensor", comm::Algorithm::ring}});
  EXPECT_NEAR(ring.seconds(ring.group_class(0, 0), CollectiveKind::kAllReduce, 80), 6 + 120, 1e-9);
}

// Steps have one level after the other.
TEST(CollectiveTimes, ClosedFormsAndStepsAgreeOnAnIdleNetwork) {
  Cluster cluster = with_hosts(read_cluster("a100"), 8);
  cluster.hosts[0].levels_at_once = false;
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
