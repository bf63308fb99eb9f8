// Building a graph: names, inferred types, and errors at the node that is wrong.
#include "trireme/ir/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/base/error.h"
#include "trireme/ir/verify.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Builder, InfersTypesAndKeepsNamesUnique) {
  Builder b(ops(), "small");
  const ValueId x = b.input("x", {DType::f32, {2, 4}});
  const ValueId w = b.state("w", {DType::f32, {4, 8}}, Role::kParameter, {{"init", "normal"}});
  const ValueId y = b.op("matmul", {x, w}, {}, "y");
  const ValueId again = b.op("relu", {y}, {}, "y");
  const ValueId unnamed = b.op("relu", {again});
  b.output("out", unnamed);
  EXPECT_EQ(b.type(y), (TensorType{DType::f32, {2, 8}}));
  EXPECT_EQ(b.graph().values[y].name, "y");
  EXPECT_EQ(b.graph().values[again].name, "y~2");
  EXPECT_EQ(b.graph().values[unnamed].name, "relu");
  EXPECT_NO_THROW(verify(b.graph()));
}

TEST(Builder, NamesTheOtherResultsAfterTheFirst) {
  Builder b(ops(), "norm");
  const ValueId x = b.input("x", {DType::bf16, {2, 4}}), gain = b.input("gain", {DType::bf16, {4}});
  const std::vector<ValueId> results = b.node("rms_norm", {x, gain}, {{"eps", 1e-5}}, "n");
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(b.graph().values[results[0]].name, "n");
  EXPECT_EQ(b.graph().values[results[1]].name, "n.1");
  EXPECT_EQ(b.type(results[1]), (TensorType{DType::f32, {2}})) << "statistics stay f32";
}

TEST(Builder, NamesResultsByScopes) {
  Builder b(ops(), "scopes");
  const ValueId x = b.input("x", {DType::f32, {2, 4}}), gain = b.input("gain", {DType::f32, {4}});
  const auto name = [&](ValueId value) { return b.graph().values[value].name; };
  {
    const Builder::Scope block(b, "h.0");
    EXPECT_EQ(name(b.op("relu", {x})), "h.0/relu");
    {
      const Builder::Scope part(b, "mlp");
      EXPECT_EQ(name(b.op("relu", {x})), "h.0/mlp/relu");
      EXPECT_EQ(name(b.op("relu", {x})), "h.0/mlp/relu~2");
      EXPECT_EQ(name(b.op("relu", {x}, {}, "mine")), "mine") << "a name of its own is left alone";
      const std::vector<ValueId> norm = b.node("rms_norm", {x, gain}, {{"eps", 1e-5}});
      EXPECT_EQ(name(norm[1]), "h.0/mlp/rms_norm.1");
      EXPECT_EQ(name(b.node("rms_norm", {x, gain}, {{"eps", 1e-5}})[1]), "h.0/mlp/rms_norm~2.1");
    }
    EXPECT_EQ(name(b.op("relu", {x})), "h.0/relu~2") << "the inner scope is closed";
  }
  EXPECT_EQ(name(b.op("relu", {x})), "relu");
  EXPECT_EQ(b.scope(), "");
}

TEST(Builder, NumbersGoOnInAGraphThatIsGoneOnWith) {
  Builder first(ops(), "g");
  const ValueId x = first.input("x", {DType::f32, {3}});
  for (int i = 0; i < 3; ++i) first.op("neg", {x});
  Builder second(ops(), first.take());
  EXPECT_EQ(second.graph().values[second.op("neg", {x})].name, "neg~4");
}

TEST(Builder, NeverRenamesInputsAndStates) {
  Builder b(ops(), "g");
  const ValueId x = b.input("x", {DType::f32, {3}});
  b.op("neg", {x});
  EXPECT_THAT(
      [&] {
        b.state("neg", {DType::f32, {3}});
      },
      ThrowsMessage<Error>(HasSubstr("a state needs a name of its own, but %neg is there already")));
  EXPECT_THAT(
      [&] {
        b.input("x", {DType::f32, {3}});
      },
      ThrowsMessage<Error>(HasSubstr("%x is there already")));
}

TEST(Builder, ACopyKeepsAllNames) {
  Builder from(ops(), "from");
  const std::vector<ValueId> parts =
      from.node("split", {from.input("x", {DType::f32, {3}})},
                {{"dim", int64_t{0}}, {"sizes", std::vector<int64_t>{1, 2}}}, "a");
  Graph graph = from.take();
  graph.values[parts[1]].name = "b";
  Builder to(ops(), "to");
  const ValueId x = to.input("x", {DType::f32, {3}});
  const std::vector<ValueId> copied = to.copy(graph, graph.nodes[0], {x}, graph.nodes[0].attrs);
  EXPECT_EQ(to.graph().values[copied[0]].name, "a");
  EXPECT_EQ(to.graph().values[copied[1]].name, "b");
}

TEST(Builder, GoesOnWithAGraph) {
  Builder first(ops(), "g");
  const ValueId x = first.input("x", {DType::f32, {3}});
  Builder second(ops(), first.take());
  const ValueId y = second.op("neg", {x}, {}, "x");
  EXPECT_NE(second.graph().values[y].name, "x");
  EXPECT_NO_THROW(verify(second.graph()));
}

TEST(Builder, SaysWhatDoesNotFit) {
  Builder b(ops(), "wrong");
  const ValueId x = b.input("x", {DType::f32, {2, 4}}), ids = b.input("ids", {DType::i32, {4}});
  EXPECT_THAT([&] { b.op("matmull", {x, x}); }, ThrowsMessage<Error>(HasSubstr("did you mean 'matmul'?")));
  EXPECT_THAT(
      [&] {
        b.op("add", {x, ids});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("input 1 is i32[4]"), HasSubstr("f32 is expected"))));
  EXPECT_THAT([&] { b.op("softmax", {}); }, ThrowsMessage<Error>(HasSubstr("0 inputs given, 1 expected")));
  EXPECT_THAT(
      [&] {
        b.op("rms_norm", {x, b.input("gain", {DType::f32, {4}})});
      },
      ThrowsMessage<Error>(HasSubstr("attribute 'eps' is missing; a number is expected")));
  EXPECT_EQ(b.graph().nodes.size(), 0u) << "a refused node leaves no trace";
}

TEST(OpTable, CostCountsEachOperandOnce) {
  const std::vector<TensorType> types{{DType::f32, {2, 3}}, {DType::f32, {3, 5}}};
  const Cost cost = cost_of(ops().at("matmul"), types, {});
  EXPECT_EQ(cost.flops, 2 * 2 * 3 * 5);
  EXPECT_EQ(cost.bytes, 4 * (6 + 15 + 10));
  EXPECT_EQ(cost_of(ops().at("reshape"), {types[0]}, {{"shape", std::vector<int64_t>{6}}}).bytes, 0);
}

// Beyond what an index holds at first, so that it grows.
TEST(Builder, FindsEachOfManyNamesAndNoOther) {
  Builder b(ops(), "many");
  for (int i = 0; i < 1000; ++i) b.input(fmt::format("x.{}", i), {DType::f32, {}});
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(b.find(fmt::format("x.{}", i)), i);
  EXPECT_EQ(b.find("x.1000"), kNoValue);
}

}  // namespace
}  // namespace trireme
