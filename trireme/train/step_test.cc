// The graphs of a step: segments, fusions, precision, and refusals that a person can act on.
#include "trireme/train/step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/ir/verify.h"
#include "trireme/program/build.h"

namespace trireme {
namespace {

using testing::HasSubstr;

ModelOptions small(const char* family) {
  ModelOptions model;
  model.family = family;
  model.layers = 2;
  model.heads = 2;
  model.hidden = 16;
  model.vocab = 20;
  model.seq = 8;
  model.classes = 10;
  return model;
}

StepGraphs graphs_of(const ModelOptions& model, const TrainOptions& train, const Shape& sample) {
  StepGraphs step = step_graphs(model, train, {}, {3, sample}, schedule_of(train));
  for (StepSegment& segment : step.segments) segment.graph = optimized(segment.graph);
  return step;
}

int64_t nodes(const Graph& graph, std::string_view op, std::string_view epilogue = "") {
  return std::ranges::count_if(graph.nodes, [&](const Node& node) {
    return node.op->name == op && (epilogue.empty() || node.attrs.text("epilogue", "none") == epilogue);
  });
}

std::vector<std::string> names(const StepGraphs& step) {
  std::vector<std::string> result;
  for (const StepSegment& segment : step.segments) result.push_back(segment.graph.name);
  return result;
}

// The message of the Error that refuses a step.
std::string refusal(const ModelOptions& model, const Shape& sample, TrainOptions train = {}) {
  try {
    graphs_of(model, train, sample);
  } catch (const Error& error) {
    return error.what();
  }
  return "not refused";
}

TEST(Step, SegmentsDependOnAccumulation) {
  TrainOptions train;
  EXPECT_THAT(names(graphs_of(small("gpt"), train, {8})),
              testing::ElementsAre("first", "update", "evaluate"));
  train.accumulate = 2;
  EXPECT_THAT(names(graphs_of(small("gpt"), train, {8})),
              testing::ElementsAre("first", "next", "update", "evaluate"));
}

TEST(Step, GraphsVerify) {
  for (const char* precision : {"f32", "bf16", "f16"}) {
    TrainOptions train;
    train.precision = precision;
    train.accumulate = 2;
    for (const char* family : {"gpt", "llama", "lstm"}) {
      for (const auto& [graph, kind, rows] : graphs_of(small(family), train, {8}).segments) verify(graph);
    }
    for (const char* family : {"mlp", "lenet"}) {
      for (const auto& [graph, kind, rows] : graphs_of(small(family), train, {1, 28, 28}).segments)
        verify(graph);
    }
  }
}

TEST(Step, GptIsFused) {
  const Graph first = graphs_of(small("gpt"), {}, {8}).segments[0].graph;
  EXPECT_EQ(nodes(first, "matmul", "bias_gelu"), 2);      // one per layer
  EXPECT_EQ(nodes(first, "matmul", "bias_residual"), 4);  // two per layer
  EXPECT_EQ(nodes(first, "matmul", "bias"), 2);           // queries, keys and values
  EXPECT_EQ(nodes(first, "gelu"), 0);
}

TEST(Step, DropoutTakesTheResidualSumFromTheProduct) {
  ModelOptions model = small("gpt");
  model.dropout = 0.1;
  const StepGraphs step = graphs_of(model, {}, {8});
  EXPECT_EQ(nodes(step.segments[0].graph, "dropout"), 1 + 5);  // of the embedding; and all of the backward part
  EXPECT_EQ(nodes(step.segments[0].graph, "dropout_add"), 4);  // two per layer
  EXPECT_EQ(nodes(step.segments[0].graph, "matmul", "bias"), 2 + 4);
  EXPECT_EQ(nodes(step.segments[0].graph, "matmul", "bias_gelu"), 2);
  EXPECT_EQ(nodes(step.segments[0].graph, "matmul", "bias_residual"), 0);
  EXPECT_EQ(nodes(step.segments.back().graph, "dropout"), 0) << "in evaluation";
}

TEST(Step, LowPrecisionKeepsStatesInF32) {
  TrainOptions train;
  train.precision = "bf16";
  for (const auto& [graph, kind, rows] : graphs_of(small("llama"), train, {8}).segments) {
    for (const Value& value : graph.values) {
      if (value.kind == Value::Kind::kState) {
        EXPECT_EQ(value.type.dtype, DType::f32) << value.name;
      }
    }
    for (const Node& node : graph.nodes) {
      if (node.op->name == "matmul") {
        EXPECT_EQ(graph.type(node.inputs[0]).dtype, DType::bf16);
      }
    }
  }
}

TEST(Step, TiedHeadHasOneParameterAndOneGradient) {
  const StepGraphs step = graphs_of(small("gpt"), {}, {8});
  EXPECT_EQ(std::ranges::count(step.parameters, "wte.weight", &Value::name), 1);
  EXPECT_NE(step.segments[0].graph.find("grad.wte.weight"), kNoValue);
}

TEST(Step, RefusalsSayWhatDoesNotFit) {
  ModelOptions model = small("gpt");
  model.heads = 3;
  EXPECT_THAT(refusal(model, {8}), AllOf(HasSubstr("model.hidden = 16"), HasSubstr("model.heads = 3")));
  model = small("llama");
  model.kv_heads = 4;
  EXPECT_THAT(refusal(model, {8}), AllOf(HasSubstr("model.heads = 2"), HasSubstr("model.kv_heads = 4")));
  model = small("llama");
  model.hidden = 6;
  EXPECT_THAT(refusal(model, {8}), HasSubstr("pairs"));
  EXPECT_THAT(refusal(small("gpt"), {9}), AllOf(HasSubstr("9 tokens"), HasSubstr("model.seq = 8")));
  EXPECT_THAT(refusal(small("gpt"), {1, 28, 28}), HasSubstr("[1,28,28]"));
  EXPECT_THAT(refusal(small("mlp"), {8}), HasSubstr("[8]"));
  model = small("gpt");
  model.vocab = 0;
  EXPECT_THAT(refusal(model, {8}), HasSubstr("model.vocab"));
  model = small("mlp");
  model.classes = 0;
  EXPECT_THAT(refusal(model, {1, 28, 28}), HasSubstr("model.classes"));
  TrainOptions train;
  train.precision = "f8";
  EXPECT_THAT(refusal(small("gpt"), {8}, train), HasSubstr("f32, bf16 or f16"));
}

}  // namespace
}  // namespace trireme
