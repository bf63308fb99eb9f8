// Cluster files: what is read, what is refused and in which words, and where ranks are laid.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "trireme/mesh/cluster_file.h"
#include "trireme/mesh/device_map.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::string_view kTwoHosts = R"(
name = "two"
[[device]]
name = "fast"
memory_bytes = 80e9
bytes_per_second = [[1e6, 4e12], [1e9, 2e12]]
at_once = ["cast", "adam"]
flops_per_second = {bf16 = 300e12, f32 = 20e12}
ops = {adam = 0.5, matmul = [[1e-6, 0.25], [4e-6, 0.5]]}
[device.products]
m = [64, 1024]
k = [64, 4096]
efficiency = [0.1, 0.3, 0.2, 0.8]
[[host]]
device = "fast"
devices = 4
count = 2
inside = "nvlink"
across = "ethernet"
cards = 2
[[link]]
name = "nvlink"
alpha_seconds = 3e-6
bytes_per_second = 200e9
[[link]]
name = "ethernet"
alpha_seconds = 20e-6
bytes_per_second = 10e9
)";

std::string with(std::string_view from, std::string_view to) {
  std::string text(kTwoHosts);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string refusal(const std::string& text) {
  return error_of([&] { parse_cluster(text, "my.toml"); });
}

TEST(Cluster, ThePartThatRanksUse) {
  const Cluster whole = parse_cluster(kTwoHosts, "my.toml");
  EXPECT_EQ(with_devices(whole, 8), whole);
  EXPECT_EQ(with_devices(whole, 4), with_hosts(whole, 1));
  const Cluster part = with_devices(whole, 3);
  EXPECT_EQ(part.device_count(), 3);
  EXPECT_EQ(part.host_count(), 1);
  EXPECT_THAT(error_of([&] { with_devices(whole, 6); }), testing::HasSubstr("they have 4 devices each"));
  EXPECT_THAT(error_of([&] { with_devices(whole, 9); }), testing::HasSubstr("too few for 9 ranks"));
}

TEST(ClusterFile, AllShippedOnesAreRead) {
  for (const std::string& name : shipped_clusters()) {
    SCOPED_TRACE(name);
    const Cluster cluster = read_cluster(name);
    EXPECT_EQ(cluster.device_count(), 8);
    EXPECT_GT(cluster.devices[0].peak(DType::f16), 100e12);
    EXPECT_EQ(parse_cluster(to_toml(cluster), "again"), cluster);
  }
}

TEST(ClusterFile, ReadsBackWhatItWrites) {
  const Cluster cluster = parse_cluster(kTwoHosts, "my.toml");
  EXPECT_EQ(cluster.device_count(), 8);
  EXPECT_EQ(cluster.host_count(), 2);
  EXPECT_EQ(cluster.devices[0].at_once.size(), 2u);
  EXPECT_EQ(cluster.devices[0].ops.at("adam").at(1), 0.5);
  EXPECT_EQ(cluster.devices[0].ops.at("matmul").points().size(), 2u);
  EXPECT_EQ(parse_cluster(to_toml(cluster), "again"), cluster);
}

TEST(ClusterFile, AMisspeltKeyIsRefusedWithTheNearest) {
  EXPECT_THAT(
      refusal(with("memory_bytes", "memory_byte")),
      AllOf(HasSubstr("my.toml:5"), HasSubstr("'memory_byte'"), HasSubstr("did you mean 'memory_bytes'?")));
  EXPECT_THAT(refusal(with("bf16", "bf17")), AllOf(HasSubstr("'bf17'"), HasSubstr("'bf16'")));
  EXPECT_THAT(refusal(with("devices = 4", "devices = \"four\"")),
              AllOf(HasSubstr("my.toml:16"), HasSubstr("a number"), HasSubstr("devices")));
  EXPECT_THAT(refusal(with("[\"cast\", \"adam\"]", "\"adam\"")),
              AllOf(HasSubstr("my.toml:7"), HasSubstr("a list of names in quotes expected")));
  EXPECT_THAT(refusal(with("[1e-6, 0.25]", "[5e-6, 0.25]")),
              AllOf(HasSubstr("my.toml:9"), HasSubstr("matmul"), HasSubstr("with seconds ascending")));
  EXPECT_THAT(refusal(with("[1e-6, 0.25]", "[0, 0.25]")),
              AllOf(HasSubstr("the first size of ops.matmul is 0"), HasSubstr("more than 0")));
  EXPECT_THAT(refusal(with("count = 2", "count = 1.5")), HasSubstr("a whole number expected"));
  EXPECT_THAT(refusal("name = \"open"), HasSubstr("my.toml:1"));
}

TEST(ClusterFile, NoDevicesAndLinksToNowhereAreRefused) {
  EXPECT_THAT(refusal("name = \"empty\""), HasSubstr("add a [[host]]"));
  EXPECT_THAT(refusal(with("devices = 4", "devices = 0")), HasSubstr("at least 1 of each expected"));
  EXPECT_THAT(refusal(with("inside = \"nvlink\"", "inside = \"nvlnik\"")),
              AllOf(HasSubstr("names the link 'nvlnik'"), HasSubstr("did you mean 'nvlink'?")));
  EXPECT_THAT(refusal(with("inside = \"nvlink\"", "")), HasSubstr("no link between them"));
  EXPECT_THAT(refusal(with("across = \"ethernet\"", "")), HasSubstr("2 hosts"));
  EXPECT_THAT(refusal(with("device = \"fast\"", "device = \"slow\"")), HasSubstr("names the device 'slow'"));
  EXPECT_THAT(refusal(with("bytes_per_second = 200e9", "bytes_per_second = 0")),
              HasSubstr("more than 0 expected"));
  EXPECT_THAT(refusal(with("0.2, 0.8]", "0.2]")),
              AllOf(HasSubstr("3 efficiencies"), HasSubstr("2 x 1 x 2 = 4")));
  EXPECT_THAT(error_of([] { read_cluster("a10"); }), HasSubstr("did you mean 'a100'?"));
}

TEST(ClusterFile, MoreDevicesThanAnybodyHasAreRefused) {
  for (const char* devices : {"devices = 1000000000", "devices = 600000"})
    EXPECT_THAT(refusal(with("devices = 4", devices)), HasSubstr("at most 1048576 expected")) << devices;
  EXPECT_THAT(refusal(with("count = 2", "count = 1000000000")), HasSubstr("4000000000 devices"));
  EXPECT_EQ(refusal(with("devices = 4", "devices = 500000")), "no error");
  EXPECT_THAT(error_of([] { with_hosts(read_cluster("a100"), 1 << 30); }), HasSubstr("at most"));
}

// Names are printed.
TEST(ClusterFile, TextThatATerminalWouldObeyIsRefused) {
  for (const char* name : {"name = \"\\u001b[2Jfast\"", "name = \"a\\u009bb\""})
    EXPECT_THAT(refusal(with("name = \"fast\"", name)),
                AllOf(HasSubstr("my.toml:"), HasSubstr("control characters")));
}

TEST(ClusterFile, KeysOfManyPartsAreRefused) {
  std::string key = "a";
  for (int i = 0; i < 200'000; ++i) key += ".a";
  EXPECT_THAT(refusal(std::string(kTwoHosts) + key + " = 1\n"), HasSubstr("a key with more than 16 dots"));
}

TEST(Cluster, EfficiencyAndBandwidthLieBetweenTheirPoints) {
  const DeviceClass device = parse_cluster(kTwoHosts, "my.toml").devices[0];
  EXPECT_DOUBLE_EQ(device.products.at(64, 5, 64), 0.1);
  EXPECT_DOUBLE_EQ(device.products.at(64, 5, 4096), 0.3);
  EXPECT_DOUBLE_EQ(device.products.at(1 << 20, 5, 1 << 20), 0.8);
  EXPECT_NEAR(device.products.at(256, 5, 512), (0.1 + 0.3 + 0.2 + 0.8) / 4, 1e-12);
  EXPECT_DOUBLE_EQ(device.bytes_per_second(1), 4e12);
  EXPECT_DOUBLE_EQ(device.bytes_per_second(1e12), 2e12);
  EXPECT_NEAR(device.bytes_per_second(std::sqrt(1e6 * 1e9)), 3e12, 1);
  EXPECT_EQ(device.peak(DType::f16), 20e12);  // not said, so that of f32
}

TEST(Cluster, AFormatThatTheDeviceDoesNotHaveIsRefused) {
  const DeviceClass v100 = read_cluster("v100").devices[0];
  EXPECT_EQ(v100.peak(DType::f16), 125e12);
  EXPECT_THAT(
      error_of([&] { v100.peak(DType::bf16); }),
      AllOf(HasSubstr("'v100' has a peak for f16 and none for bf16"), HasSubstr("--train.precision=f16")));
}

TEST(Cluster, Tf32TakesThePlaceOfF32WhereItsPeakIsKnown) {
  Cluster cluster = with_tf32(read_cluster("a100"));
  EXPECT_DOUBLE_EQ(cluster.devices[0].peak(DType::f32), 156e12);
  EXPECT_DOUBLE_EQ(cluster.devices[0].peak(DType::bf16), 312e12);
  EXPECT_THAT(error_of([] { with_tf32(read_cluster("v100")); }),
              HasSubstr("the device class 'v100' has no peak for TF32; add tf32 to its flops_per_second"));
}

TEST(DeviceMap, TensorStaysInsideAHostWhereverTheMeshHasIt) {
  const Cluster cluster = parse_cluster(kTwoHosts, "my.toml");
  for (const char* text : {"data:2 tensor:4", "tensor:4 data:2"}) {
    SCOPED_TRACE(text);
    const Mesh mesh = parse_mesh(text);
    const DeviceMap device_map(mesh, cluster);
    const int tensor = mesh.axis("tensor"), data = mesh.axis("data");
    for (int rank = 0; rank < 8; ++rank) {
      for (const int other : mesh.members(rank, tensor))
        EXPECT_EQ(device_map.host(rank), device_map.host(other));
      for (const int other : mesh.members(rank, data)) {
        if (other != rank) {
          EXPECT_NE(device_map.host(rank), device_map.host(other));
        }
      }
    }
    EXPECT_TRUE(device_map.is_symmetric());
  }
}

TEST(DeviceMap, ReplicasAreOnOtherHostsWhereverTheMeshHasThem) {
  const Cluster cluster = parse_cluster(kTwoHosts, "my.toml");
  for (const char* text : {"replica:2 pipe:2 data:2", "data:2 pipe:2 replica:2"}) {
    const Mesh mesh = parse_mesh(text);
    const DeviceMap device_map(mesh, cluster);
    const int replica = mesh.axis("replica");
    for (int rank = 0; rank < 8; ++rank)
      EXPECT_EQ(device_map.host(rank), mesh.coordinate(rank, replica)) << text;
    EXPECT_TRUE(device_map.is_symmetric());
  }
}

TEST(DeviceMap, DevicesShareTheCardsOfTheirHost) {
  const Cluster cluster = parse_cluster(kTwoHosts, "my.toml");
  const Mesh mesh = parse_mesh("data:8");
  const DeviceMap device_map(mesh, cluster);
  EXPECT_EQ(device_map.path(0, 3).reach, Reach::kInside);
  EXPECT_DOUBLE_EQ(device_map.path(0, 3).beta_seconds_per_byte, 1 / 200e9);
  EXPECT_EQ(device_map.path(0, 4).reach, Reach::kAcross);
  EXPECT_DOUBLE_EQ(device_map.path(0, 4).beta_seconds_per_byte, 1 / 5e9);  // 4 devices, 2 cards
}

// One message in five is lost: of five that are sent, four arrive, and each has been waited for a quarter of
// a resend.
TEST(DeviceMap, WhatIsLostIsSentAgain) {
  Cluster cluster = with_hosts(read_cluster("a100"), 2);
  LinkClass& link = cluster.links[1];
  const Path before = DeviceMap(Mesh({{"data", 16}}), cluster).path(0, 8);
  link.loss = 0.2;
  link.resend_seconds = 1e-3;
  const Path path = DeviceMap(Mesh({{"data", 16}}), cluster).path(0, 8);
  EXPECT_DOUBLE_EQ(path.alpha_seconds, 1.25 * before.alpha_seconds + 0.25e-3);
  EXPECT_DOUBLE_EQ(path.beta_seconds_per_byte, 1.25 * before.beta_seconds_per_byte);
  link.loss = 1;
  EXPECT_THAT(error_of([&] { check(cluster, "test"); }),
              HasSubstr("loss is 1; a share of its messages is expected"));
}

TEST(DeviceMap, LeavesCostWhatTheyAreOversubscribedBy) {
  const Cluster cluster =
      parse_cluster("hosts_per_leaf = 1\noversubscription = 4\n" + std::string(kTwoHosts), "my.toml");
  const Mesh mesh = parse_mesh("data:8");
  const DeviceMap device_map(mesh, cluster);
  EXPECT_EQ(device_map.path(0, 4).reach, Reach::kSpine);
  EXPECT_DOUBLE_EQ(device_map.path(0, 4).beta_seconds_per_byte, 4 / 5e9);
}

TEST(DeviceMap, AMeshThatDoesNotFitIsRefused) {
  const Cluster cluster = parse_cluster(kTwoHosts, "my.toml");
  const Mesh mesh = parse_mesh("data:12");
  EXPECT_THAT(error_of([&] { DeviceMap(mesh, cluster); }),
              AllOf(HasSubstr("12 ranks"), HasSubstr("8 devices on 2 hosts"), HasSubstr("4 too few")));
}

TEST(DeviceMap, StagesThatBeginInTheMiddleOfAHostAreNotSymmetric) {
  const Cluster cluster = parse_cluster(kTwoHosts, "my.toml");
  const Mesh mesh = parse_mesh("pipe:2 data:3");
  EXPECT_FALSE(DeviceMap(mesh, cluster).is_symmetric());
}

// Hosts of four, stages of six ranks: each rank's fellow in the next stage is on another host, one or two
// hosts further on.
TEST(DeviceMap, OtherHostsThatLieAlikeAreSymmetric) {
  const Cluster cluster = with_hosts(parse_cluster(kTwoHosts, "my.toml"), 6);
  EXPECT_TRUE(DeviceMap(parse_mesh("pipe:4 data:6"), cluster).is_symmetric());
  Cluster with_leaves = cluster;
  with_leaves.hosts_per_leaf = 2;
  EXPECT_FALSE(DeviceMap(parse_mesh("pipe:4 data:6"), with_leaves).is_symmetric());
}

TEST(DeviceMap, HostsWithOtherLinksAreNotSymmetric) {
  Cluster cluster = with_hosts(parse_cluster(kTwoHosts, "my.toml"), 1);
  cluster.hosts.push_back(cluster.hosts[0]);
  const Mesh mesh = parse_mesh("data:2 tensor:4");
  cluster.hosts[1].inside = "ethernet";
  EXPECT_FALSE(DeviceMap(mesh, cluster).is_symmetric());
}

}  // namespace
}  // namespace trireme
