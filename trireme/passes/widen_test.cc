// A graph in 16 bits, held in f32: the same nodes, no 16-bit value, and every node still fits its op's rules.
#include "trireme/passes/widen.h"

#include <gtest/gtest.h>

#include "trireme/ir/builder.h"
#include "trireme/ir/verify.h"
#include "trireme/ops/table.h"
#include "trireme/passes/precision.h"

namespace trireme {
namespace {

Graph network() {
  Builder b(ops(), "first");
  const ValueId x = b.input("x", {DType::f32, {4, 8}});
  const ValueId w = b.state("w", {DType::f32, {8, 8}});
  const ValueId ids = b.input("ids", {DType::i32, {4}});
  const ValueId y = b.op("relu", {b.op("matmul", {x, w})});
  const std::vector<ValueId> loss = b.node("cross_entropy", {y, ids}, {{"ignore_index", int64_t{-1}}});
  b.output("loss", loss[0]);
  return b.take();
}

TEST(Widen, KeepsNodesAndHoldsAllInF32) {
  for (const DType format : {DType::bf16, DType::f16}) {
    const Graph narrow = lower_precision(network(), format, ops());
    const Graph wide = widen(narrow);
    verify(wide);
    ASSERT_EQ(wide.nodes.size(), narrow.nodes.size());
    int casts = 0;
    for (size_t n = 0; n < wide.nodes.size(); ++n) {
      EXPECT_EQ(wide.nodes[n].op, narrow.nodes[n].op);
      EXPECT_EQ(wide.nodes[n].inputs, narrow.nodes[n].inputs);
      casts += wide.nodes[n].op->name == "cast";
    }
    EXPECT_GE(casts, 2);
    for (const Value& value : wide.values)
      EXPECT_TRUE(value.type.dtype == DType::f32 || value.type.dtype == DType::i32) << value.name;
  }
}

TEST(Widen, LeavesF32AsItIs) {
  const Graph graph = network();
  const Graph wide = widen(graph);
  for (size_t i = 0; i < graph.values.size(); ++i) EXPECT_EQ(wide.values[i].type, graph.values[i].type);
}

}  // namespace
}  // namespace trireme
