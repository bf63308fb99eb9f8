#include "trireme/ir/graph_copy.h"

#include <gtest/gtest.h>

#include "trireme/ir/text.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

Graph squares() {
  Builder b(ops(), "g");
  const ValueId w = b.state("w", {DType::f32, {3}}, Role::kParameter);
  const ValueId x = b.input("x", {DType::f32, {3}});
  const ValueId square = b.op("mul", {x, x}, {}, "square");
  const ValueId sum = b.op("add", {w, square}, {}, "sum");
  b.update(w, sum);
  b.output("out", sum, OutputRole::kWhole);
  return b.take();
}

TEST(GraphCopy, OfAllIsTheGraph) {
  const Graph graph = squares();
  GraphCopy copy(graph, ops(), "g");
  copy.declare_all();
  for (const Node& node : graph.nodes) copy.add(node);
  copy.finish();
  EXPECT_EQ(print(copy.take()), print(graph));
}

TEST(GraphCopy, ReadersOfAReplacedValueReadWhatStandsForIt) {
  const Graph graph = squares();
  GraphCopy copy(graph, ops(), "g");
  copy.declare_all();
  copy.set(graph.find("square"), copy[graph.find("x")]);
  copy.add(graph.nodes[1]);
  copy.finish([&](ValueId old) { return copy.builder().op("neg", {copy[old]}); });
  const Graph result = copy.take();
  EXPECT_EQ(result.find("square"), kNoValue);
  EXPECT_EQ(result.nodes[0].inputs[1], result.find("x"));
  EXPECT_EQ(result.updates[0].value, result.find("neg"));
  EXPECT_EQ(result.outputs[0].value, result.find("neg~2"));
}

TEST(GraphCopy, HasNothingForValuesThatWereNotCopied) {
  const Graph graph = squares();
  GraphCopy copy(graph, ops(), "g");
  const ValueId w = graph.find("w");
  EXPECT_FALSE(copy.has(w));
  copy.declare(w);
  EXPECT_TRUE(copy.has(w));
  EXPECT_FALSE(copy.has(graph.find("x")));
}

}  // namespace
}  // namespace trireme
