// What the timer tells becomes what a step takes: by hand.
#include "trireme/bench/step_sums.h"

#include <gtest/gtest.h>

#include "trireme/ir/text.h"
#include "trireme/ops/table.h"

namespace trireme::bench {
namespace {

// 1 FLOP a second, and memory that takes no time.
DeviceClass slow_device() {
  return {.name = "slow", .bandwidth = {{0, 1e30}}, .flops_per_second = {{DType::f32, 1}}};
}

// A product of 4 FLOPs and 3 elements of relu. A launch takes 0.5 s, and the timer tells 1 s of it.
//
//   matmul  twice a step, told 3 s, so 2 s without the launch: 4 s
//   relu    once, told 5 s, so 4 s without
//
// That is 8 s of work and 3 launches. A step that nobody times takes 5.5 s, of which 1.5 s are launches: 4 s
// of work, half of what was told.
TEST(StepSums, NodesAndLaunchesAreTogetherAsLongAsAStep) {
  const Graph graph = parse_graph(
      "graph g\ninput %a: f32[1,2]\ninput %b: f32[2,1]\ninput %c: f32[3]\n"
      "%y: f32[1,1] = matmul(%a, %b)\n%z: f32[3] = relu(%c)\noutput y = %y\noutput z = %z\n",
      ops());
  const auto times_of = [&](double step_seconds) {
    StepSums sums({.seconds = 0.5, .timed_seconds = 1});
    sums.add(graph, graph.nodes[0], slow_device(), 3, 2);
    sums.add(graph, graph.nodes[1], slow_device(), 5, 1);
    return sums.take(step_seconds);
  };
  const StepTimes times = times_of(5.5);
  EXPECT_DOUBLE_EQ(times.seconds, 5.5);
  const OpTime product = times.launches.at("matmul")[0], relu = times.launches.at("relu")[0];
  EXPECT_DOUBLE_EQ(product.roofline_seconds, 4);
  EXPECT_DOUBLE_EQ(product.seconds, 1);
  EXPECT_DOUBLE_EQ(relu.roofline_seconds, 3);
  EXPECT_DOUBLE_EQ(relu.seconds, 2);
  // Of a step of 1.6 s launches would be 1.5 s; a tenth, 0.16 s, stays for work: 0.02 of what was told.
  EXPECT_DOUBLE_EQ(times_of(1.6).launches.at("relu")[0].seconds, 0.08);
}

// Three nodes that the device does at once have one launch: told 2 s each, they are 6 s, and 5 s without it.
// Of a step of 10.5 s, 10 s are work.
TEST(StepSums, NodesThatAreDoneAtOnceAreOneLaunch) {
  const Graph graph = parse_graph(
      "graph g\ninput %a: f32[2]\ninput %b: f32[2]\ninput %c: f32[4]\n"
      "%x: f32[2] = relu(%a)\n%y: f32[2] = relu(%b)\n%z: f32[4] = relu(%c)\n"
      "output x = %x\noutput y = %y\noutput z = %z\n",
      ops());
  DeviceClass device = slow_device();
  device.at_once = {"relu"};
  StepSums sums({.seconds = 0.5, .timed_seconds = 1});
  for (const Node& node : graph.nodes) sums.add(graph, node, device, 2, 1);
  const StepTimes times = sums.take(10.5);
  EXPECT_TRUE(times.launches.empty());
  const OpTime all = times.together.at("relu")[0];
  EXPECT_DOUBLE_EQ(all.roofline_seconds, 8);
  EXPECT_DOUBLE_EQ(all.seconds, 10);
}

}  // namespace
}  // namespace trireme::bench
