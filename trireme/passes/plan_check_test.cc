// One test for each request of a plan that a model can not meet.
#include "trireme/passes/plan_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/base/error.h"
#include "trireme/ir/builder.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

using testing::HasSubstr;

struct Parameter {
  std::string name;
  Shape shape;
  Attrs attrs;
};

Graph model(const std::vector<Parameter>& parameters, int64_t rows = 8) {
  Builder b(ops(), "first");
  b.input("images", {DType::f32, {rows, 4}}, Role::kBatch);
  for (const Parameter& parameter : parameters) {
    b.state(parameter.name, {DType::f32, parameter.shape}, Role::kParameter, parameter.attrs);
    b.state("grad." + parameter.name, {DType::f32, parameter.shape}, Role::kGradient,
            {{"of", parameter.name}});
  }
  return b.take();
}

const Attrs kConvolution{{"layer", "convolution"}}, kNorm{{"layer", "norm"}};
Attrs heads_of(int64_t size) {
  return {{"tensor_dim", int64_t{1}}, {"tensor_unit", size}};
}

std::string refusal(const std::string& json, const Graph& graph) {
  try {
    check_plan(parse_plan(json, "plan.json"), {graph});
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(PlanCheck, HeadsThatAreTooFew) {
  const Graph graph = model({{"q.weight", {16, 16}, heads_of(8)}});
  EXPECT_EQ(refusal(R"({"mesh": "tensor:2", "preset": "megatron"})", graph), "none");
  EXPECT_THAT(
      refusal(R"({"mesh": "tensor:3", "preset": "megatron"})", graph),
      HasSubstr(
          "q.weight [16,16] has 2 parts (heads, features, rows or experts) that can be told apart along "
          "dim 1; 3 ranks of the axis tensor are too many"));
}

TEST(PlanCheck, AModelThatThePresetDoesNotSuit) {
  const Graph plain = model({{"w", {16, 16}, {}}});
  const Graph images =
      model({{"conv.weight", {6, 1, 5, 5}, kConvolution}, {"fc.weight", {4, 16}, heads_of(1)}});
  const Graph fully_connected = model({{"fc.weight", {4, 16}, heads_of(1)}});
  const std::string megatron = R"({"mesh": "tensor:2", "preset": "megatron"})",
                    sequence = R"({"mesh": "tensor:2", "preset": "megatron+sequence"})",
                    hybrid = R"({"mesh": "tensor:2", "preset": "hybrid_cnn"})";
  const std::string expert = R"({"mesh": "expert:2", "preset": "expert"})";
  EXPECT_THAT(refusal(expert, fully_connected), HasSubstr("this model has no experts"));
  EXPECT_EQ(refusal(expert, model({{"w", {4, 8, 8}, {{"expert_dim", int64_t{0}}}}})), "none");
  EXPECT_THAT(refusal(expert, model({{"w", {1, 8, 8}, {{"expert_dim", int64_t{0}}}}})),
              HasSubstr("2 ranks of the axis expert are too many"));
  EXPECT_THAT(refusal(megatron, plain), HasSubstr("has nothing to split"));
  EXPECT_THAT(refusal(megatron, images), HasSubstr("hybrid_cnn splits them by batch"));
  EXPECT_THAT(refusal(sequence, fully_connected), HasSubstr("this model has no such norms"));
  EXPECT_EQ(refusal(sequence, model({{"fc.weight", {4, 16}, heads_of(1)}, {"ln.weight", {16}, kNorm}})),
            "none");
  EXPECT_THAT(refusal(hybrid, fully_connected), HasSubstr("this model has no convolutions"));
  EXPECT_THAT(refusal(hybrid, model({{"conv.weight", {6, 1, 5, 5}, kConvolution}})),
              HasSubstr("no fully connected layer"));
  EXPECT_EQ(refusal(hybrid, images), "none");
}

TEST(PlanCheck, RowsThatAreTooFew) {
  const Graph graph = model({{"w", {16, 16}, {}}}, /*rows=*/3);
  EXPECT_EQ(refusal(R"({"mesh": "data:3"})", graph), "none");
  EXPECT_THAT(refusal(R"({"mesh": "data:4"})", graph), HasSubstr("3 rows can not be shared by 4 ranks"));
}

TEST(PlanCheck, APlanForAnotherModel) {
  const Graph graph = model({{"fc1.weight", {16, 16}, {}}});
  const auto with = [&](const std::string& layouts) {
    return refusal(R"({"mesh": "data:2 tensor:2", "layouts": )" + layouts + "}", graph);
  };
  EXPECT_EQ(with(R"({"fc1.weight": "tensor:0"})"), "none");
  EXPECT_EQ(with(R"({"fc*": "{tensor:0}"})"), "none");
  EXPECT_THAT(with(R"({"fc2.weight": "tensor:0"})"), HasSubstr("(did you mean 'fc1.weight'?)"));
  EXPECT_THAT(with(R"({"wte.*": "tensor:0"})"), HasSubstr("is the plan for another model?"));
  EXPECT_THAT(with(R"({"grad.fc1.weight": "tensor:0"})"), HasSubstr("no value that is called so"));
}

// Rows of inputs are dealt before a plan has any say in it.
TEST(PlanCheck, InputsTakeNoLayout) {
  const Graph graph = model({{"i.weight", {16, 16}, {}}});
  const auto with = [&](const std::string& layouts) {
    return refusal(R"({"mesh": "data:2 tensor:2", "layouts": )" + layouts + "}", graph);
  };
  EXPECT_THAT(with(R"({"images": "tensor:1"})"),
              HasSubstr("the layout {tensor:1} to 'images', which is an input: rows of inputs are dealt"));
  EXPECT_EQ(with(R"({"i*": "tensor:1"})"), "none");  // a pattern passes over them
  EXPECT_THAT(with(R"({"im*": "tensor:1"})"), HasSubstr("which is an input"));
}

TEST(PlanCheck, LayoutsThatDoNotFit) {
  const Graph graph = model({{"fc1.weight", {18, 16}, {}}});
  const auto with = [&](const std::string& layout) {
    return refusal(R"({"mesh": "data:2 tensor:4", "layouts": {"fc1.weight": ")" + layout + R"("}})", graph);
  };
  EXPECT_THAT(with("tensor:2"), HasSubstr("dim 2 of [18,16] does not exist"));
  EXPECT_THAT(with("tensor:0/4"), HasSubstr("can not be cut in 1 block(s) of whole units of 4"));
  EXPECT_THAT(with("data:0 tensor:0"), HasSubstr("is cut by two axes, but does not divide evenly"));
  EXPECT_THAT(with("tensor:sum"), HasSubstr("not be a sum or maximum"));
  EXPECT_THAT(with("tensor:0/9"), HasSubstr("has 2 unit(s) to share, too few for 4 ranks"));
  EXPECT_EQ(with("tensor:0"), "none");  // parts need not be even
}

}  // namespace
}  // namespace trireme
