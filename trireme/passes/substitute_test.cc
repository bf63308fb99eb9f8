// Text in, substitutes, text out.
#include "trireme/passes/substitute.h"

#include <gtest/gtest.h>

#include "trireme/ir/text.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

constexpr const char* kSlots = R"(graph layer
input %x: f32[2,3,4]
input %at: i32[2,3,1]
state %w: f32[5,6,4]
%d: f32[5,2,3,4] = dispatch(%x, %at) {experts=5, capacity=3}
%used: i32[5,2] = slots_used(%at) {experts=5, capacity=3}
%y: f32[5,2,3,6] = matmul_slots(%d, %w, %used) {transpose_b=1, rows=0.6}
output y = %y
)";

TEST(Substitute, ADeviceWithoutTheKernelComputesAllSlots) {
  const Graph graph = parse_graph(kSlots, ops());
  const Graph result = with_substitutes(graph, ops(), [](const Node&) { return false; });
  EXPECT_EQ(print(result), R"(graph layer
input %x: f32[2,3,4]
input %at: i32[2,3,1]
state %w: f32[5,6,4]
%d: f32[5,2,3,4] = dispatch(%x, %at) {experts=5, capacity=3}
%y.rows: f32[5,6,4] = reshape(%d) {shape=[5,6,4]}
%y.product: f32[5,6,6] = matmul(%y.rows, %w) {transpose_b=1}
%y: f32[5,2,3,6] = reshape(%y.product) {shape=[5,2,3,6]}
output y = %y
)");
}

TEST(Substitute, ADeviceWithTheKernelKeepsTheOp) {
  const Graph graph = parse_graph(kSlots, ops());
  EXPECT_EQ(print(with_substitutes(graph, ops(), [](const Node&) { return true; })), print(graph));
}

}  // namespace
}  // namespace trireme
