// What is launched together, and what that saves.
#include "trireme/sim/op_time.h"

#include <gtest/gtest.h>

#include "trireme/ir/text.h"
#include "trireme/ops/table.h"

namespace trireme::sim {
namespace {

TEST(NodeTime, NodesThatAreDoneAtOnceHaveOneLaunch) {
  const Graph graph = parse_graph(
      "graph g\ninput %x: f32[8]\ninput %y: f32[8]\ninput %z: bf16[8]\n"
      "%a: f32[8] = affine(%x) {scale=2.0}\n"
      "%b: f32[8] = affine(%y) {scale=2.0}\n"
      "%r: f32[2,4] = reshape(%b) {shape=[2,4]}\n"
      "%c: f32[2,4] = affine(%r) {scale=2.0}\n"
      "%d: f32[8] = affine(%b) {scale=2.0}\n"
      "%e: bf16[8] = affine(%z) {scale=2.0}\n"
      "%f: f32[8] = exp(%x)\n"
      "%g: f32[8] = exp(%y)\n"
      "%h: f32[8] = affine(%y) {scale=2.0}\n"
      "output a = %a\noutput c = %c\noutput d = %d\noutput e = %e\noutput f = %f\noutput g = %g\noutput h = "
      "%h\n",
      ops());
  DeviceClass device{.name = "one",
                     .memory_bytes = 1e9,
                     .bandwidth = {{0, 1e9}},
                     .flops_per_second = {{DType::f32, 1e9}},
                     .launch_seconds = 1e-6,
                     .at_once = {"affine"}};
  std::vector<bool> launches;
  for (const Node& node : graph.nodes) {
    const NodeTime time = node_time(graph, node, device);
    const double work = std::max(time.computing_seconds, time.moving_seconds);
    EXPECT_DOUBLE_EQ(time.seconds, work + time.launch_seconds);
    EXPECT_DOUBLE_EQ(time.launch_seconds, time.launches ? 1e-6 : 0);
    launches.push_back(time.launches);
  }
  // b goes with a; a view is no launch; c and d are made from b; e is of another format; exp is done one by
  // one; h has another op before it.
  EXPECT_EQ(launches, (std::vector<bool>{true, false, false, true, true, true, true, true, true}));
  device.at_once.clear();
  EXPECT_TRUE(node_time(graph, graph.nodes[1], device).launches);
}

}  // namespace
}  // namespace trireme::sim
