#include "trireme/passes/expand.h"

#include <gtest/gtest.h>

#include "trireme/ir/builder.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

// logits = x · w, and their loss.
Graph loss_graph() {
  Builder b(ops(), "loss");
  const ValueId x = b.input("x", {DType::f32, {4, 6}}), targets = b.input("targets", {DType::i32, {4}});
  const ValueId w = b.state("w", {DType::f32, {6, 10}});
  const std::vector<ValueId> loss =
      b.node("cross_entropy", {b.op("matmul", {x, w}, {}, "logits"), targets}, {}, "loss");
  b.output("loss", loss[0]);
  b.output("count", loss[1]);
  return b.take();
}

std::string ops_text(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes)
    text += std::string(text.empty() ? "" : " ") + std::string(node.op->name);
  return text;
}

TEST(Expand, ClassesThatAreSplitAreAddedUpInParts) {
  const Mesh mesh = parse_mesh("tensor:2");
  Pins pins;
  pins.states["w"] = {parse_layout("{tensor:1}", mesh), parse_layout("{tensor:1}", mesh)};
  const Graph graph = expand(loss_graph(), mesh, pins, ops());
  EXPECT_EQ(ops_text(graph), "matmul max cross_entropy_sums cross_entropy_total");
  EXPECT_EQ(graph.values[graph.outputs[0].value].name, "loss");
  EXPECT_EQ(graph.values[graph.outputs[1].value].name, "loss.1");
  const Spread found = spread(graph, mesh, pins);
  EXPECT_EQ(to_string(found.values[graph.find("loss.largest")], mesh), "{tensor:max}");
  EXPECT_EQ(to_string(found.values[graph.find("loss.sums")], mesh), "{tensor:sum}");
}

TEST(Expand, WhatIsNotSplitStaysOne) {
  const Mesh mesh = parse_mesh("data:2");
  Pins pins;
  pins.values["x"] = pins.values["targets"] = parse_layout("{data:0}", mesh);
  pins.outputs["loss"] = pins.outputs["count"] = parse_layout("{data:sum}", mesh);
  EXPECT_EQ(ops_text(expand(loss_graph(), mesh, pins, ops())), "matmul cross_entropy");
}

}  // namespace
}  // namespace trireme
