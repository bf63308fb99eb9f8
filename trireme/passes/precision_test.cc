// Text in, lowering, text out.
#include "trireme/passes/precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/base/error.h"
#include "trireme/ir/text.h"
#include "trireme/ir/verify.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const char* const kGraph =
    "graph g\n"
    "state %w: f32[4,8] {init=\"normal\"}\n"
    "input %x: f32[2,4]\n"
    "input %t: i32[2]\n"
    "%h: f32[2,8] = matmul(%x, %w)\n"
    "%loss: f32[], %count: f32[], %lse: f32[2] = cross_entropy(%h, %t)\n"
    "output loss = %loss\n"
    "output h = %h\n";

Graph lowered(std::string_view text, DType format) {
  Graph result = lower_precision(parse_graph(text, ops()), format, ops());
  verify(result);
  return result;
}

TEST(Precision, ComputesIn16BitsAndKeepsStatesStatisticsAndOutputs) {
  const Graph graph = lowered(kGraph, DType::bf16);
  EXPECT_EQ(graph.type(graph.find("w")).dtype, DType::f32);
  EXPECT_EQ(graph.type(graph.find("x")).dtype, DType::f32);
  EXPECT_EQ(graph.type(graph.find("h")).dtype, DType::bf16);
  for (const Output& output : graph.outputs)
    EXPECT_EQ(graph.type(output.value).dtype, DType::f32) << output.name;
  EXPECT_THAT(print(graph), HasSubstr("state %w: f32[4,8] {init=\"normal\"}"));
  EXPECT_THAT(print(graph), HasSubstr("%loss: f32[], %count: f32[], %lse: f32[2] = cross_entropy(%h, %t)"));
}

TEST(Precision, NamesCastsInTheScopeOfWhatTheyComeFrom) {
  const Graph graph = lowered(
      "state %h.0.fc.weight: f32[4]\n"
      "state %table: f32[4]\n"
      "%h.0/fc/mul: f32[4] = mul(%h.0.fc.weight, %table)\n"
      "%h.1/exp: f32[4] = exp(%h.0/fc/mul)\n"
      "%h.1/mul: f32[4] = mul(%h.1/exp, %table)\n"
      "output y = %h.1/mul\n",
      DType::bf16);
  std::vector<std::string> casts;
  for (const Node& node : graph.nodes) {
    if (node.op->name == "cast") casts.push_back(graph.values[node.outputs[0]].name);
  }
  EXPECT_THAT(casts, ElementsAre("h.0/fc/weight.bf16", "h.0/fc/table.bf16", "h.1/mul.f32"));
}

TEST(Precision, CastsEachValueOnce) {
  const Graph graph = lowered(
      "state %w: f32[4]\n"
      "%a: f32[4] = exp(%w)\n"
      "%b: f32[4] = neg(%w)\n"
      "%c: f32[4] = mul(%a, %b)\n"
      "output y = %c\n",
      DType::f16);
  int casts = 0;
  for (const Node& node : graph.nodes) casts += node.op->name == "cast";
  EXPECT_EQ(casts, 2) << "one of %w to f16, one of %c back to f32\n" << print(graph);
}

TEST(Precision, LeavesOpsAloneThatArePinnedToF32) {
  const std::string text =
      "graph g\n"
      "state %w: f32[4]\n"
      "input %r: f32[4]\n"
      "input %lr: f32[]\n"
      "%w2: f32[4] = lamb_apply(%w, %r, %lr, %lr, %lr, %lr)\n"
      "update %w <- %w2\n";
  EXPECT_EQ(print(lowered(text, DType::bf16)), text);
}

TEST(Precision, F32IsTheGraphItself) {
  EXPECT_EQ(print(lowered(kGraph, DType::f32)), kGraph);
}

TEST(Precision, RefusesOtherFormats) {
  EXPECT_THAT([] { lowered(kGraph, DType::i32); },
              ThrowsMessage<Error>(HasSubstr("not one of f32, f16, bf16")));
}

}  // namespace
}  // namespace trireme
