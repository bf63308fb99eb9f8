// Which weights become 16-bit states, and what is left of the casts.
#include "trireme/passes/half_weights.h"

#include <gmock/gmock.h>

#include "trireme/ir/builder.h"
#include "trireme/ops/table.h"
#include "trireme/passes/precision.h"

namespace trireme {
namespace {

using testing::ElementsAre;

// y = (x·w + v)·v, and a weight that is an output as it is.
Graph forward() {
  Builder b(ops(), "forward");
  const ValueId x = b.input("x", {DType::f32, {4, 3}}, Role::kBatch);
  const ValueId w = b.state("w", {DType::f32, {3, 5}}, Role::kParameter);
  const ValueId v = b.state("v", {DType::f32, {5}}, Role::kParameter);
  const ValueId kept = b.state("kept", {DType::f32, {5}}, Role::kParameter);
  const ValueId y = b.op("add", {b.op("matmul", {x, w}), v});
  b.output("y", b.op("mul", {y, v}));
  b.output("kept", kept);
  return lower_precision(b.take(), DType::bf16, ops());
}

int casts_of_states(const Graph& graph) {
  int count = 0;
  for (const Node& node : graph.nodes)
    count += node.op->output_dtype && graph.values[node.inputs[0]].kind == Value::Kind::kState;
  return count;
}

TEST(HalfWeights, AreThoseThatAreReadRoundedAlone) {
  const Graph graph = forward();
  EXPECT_THAT(rounded_parameters(graph, DType::bf16), ElementsAre("v", "w"));
  EXPECT_THAT(rounded_parameters(graph, DType::f16), ElementsAre());
}

TEST(HalfWeights, ReplaceTheirCasts) {
  const Graph graph = forward();
  ASSERT_EQ(casts_of_states(graph), 2);
  const Graph half = with_half_weights(graph, {"w", "v", "not here"}, DType::bf16);
  EXPECT_EQ(casts_of_states(half), 0);
  EXPECT_EQ(half.nodes.size(), graph.nodes.size() - 2);
  EXPECT_EQ(half.type(half.find("w")), (TensorType{DType::bf16, {3, 5}}));
  EXPECT_EQ(half.type(half.find("kept")).dtype, DType::f32);
  const Graph some = with_half_weights(graph, {"w"}, DType::bf16);
  EXPECT_EQ(casts_of_states(some), 1);
  EXPECT_EQ(some.type(some.find("v")).dtype, DType::f32);
}

}  // namespace
}  // namespace trireme
