#include "trireme/passes/offload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/base/error.h"
#include "trireme/ir/builder.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

using testing::ElementsAre;

// Momentum for three weights of these sizes, and the norm of all gradients.
Graph update_graph(const std::vector<int64_t>& sizes) {
  Builder b(ops(), "update");
  const ValueId lr = b.input("lr", {DType::f32, {}}, Role::kScalar);
  ValueId squares = kNoValue;
  struct Weight {
    ValueId weight, gradient, moment;
  };
  std::vector<Weight> weights;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const std::string name = "w" + std::to_string(i);
    const TensorType type{DType::f32, {sizes[i]}};
    const ValueId weight = b.state(name, type, Role::kParameter),
                  gradient = b.state("grad." + name, type, Role::kGradient, {{"of", name}});
    const ValueId part = b.op("sum_squares", {gradient}, {}, name + "/squares");
    squares = squares == kNoValue ? part : b.op("add", {squares, part}, {}, name + "/sum");
    weights.push_back({weight, gradient, b.state("m." + name, type, Role::kOptimizer, {{"of", name}})});
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto [weight, gradient, moment] = weights[i];
    const std::string name = "w" + std::to_string(i);
    // Read by nobody else, so that it belongs with it.
    const ValueId half = b.op("affine", {gradient}, {{"scale", 0.5}}, name + "/half");
    const ValueId next = b.op("add", {moment, half}, {}, name + "/next");
    b.update(moment, next);
    b.update(weight, b.op("sgd", {weight, next, lr, squares}, {{"weight_decay", 0.0}}, name + "/sgd"));
  }
  b.output("norm", squares);
  return b.take();
}

std::vector<std::string> results(const Graph& graph) {
  std::vector<std::string> names;
  for (const Value& value : graph.values) {
    if (value.kind == Value::Kind::kResult) names.push_back(value.name);
  }
  return names;
}

TEST(Offload, PartsHaveTheStatesOfSomeParametersEach) {
  const Graph update = update_graph({200, 1, 1});
  const std::vector<UpdatePart> parts = split_update(update, update, ops());
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].graph.name, "update.0");
  EXPECT_EQ(parts[1].graph.name, "update.1");
  EXPECT_EQ(parts[2].graph.name, "update");
  EXPECT_TRUE(parts[0].states.empty());
  EXPECT_THAT(parts[1].states, ElementsAre("m.w0"));
  EXPECT_THAT(parts[2].states, ElementsAre("m.w1", "m.w2"));
  EXPECT_THAT(results(parts[0].graph),
              ElementsAre("w0/squares", "w1/squares", "w1/sum", "w2/squares", "w2/sum"));
  EXPECT_THAT(results(parts[1].graph), ElementsAre("w0/half", "w0/next", "w0/sgd"));
  // The norm is passed on in a state, and put out by the last part.
  EXPECT_GE(parts[1].graph.find("kept.w2/sum"), 0);
  EXPECT_TRUE(parts[0].graph.outputs.empty() && parts[1].graph.outputs.empty());
  ASSERT_EQ(parts[2].graph.outputs.size(), 1u);
  for (const UpdatePart& part : parts) EXPECT_GE(part.graph.find("lr"), 0);
}

// Of three chunks the first has w0, the last w2; w1 is of both and stays in memory.
TEST(Offload, PartsHaveTheGradientsOfOneChunkAtATime) {
  const Graph update = update_graph({8, 3, 4});
  const std::vector<UpdatePart> parts = split_update(update, update, ops(), {3, {{"w0", 0}, {"w2", 2}}});
  ASSERT_EQ(parts.size(), 5u);  // nothing in between is of the chunk in the middle
  EXPECT_THAT(results(parts[0].graph), ElementsAre("w0/squares", "w1/squares", "w1/sum"));
  EXPECT_THAT(results(parts[1].graph), ElementsAre("w2/squares", "w2/sum"));
  EXPECT_THAT(parts[2].states, ElementsAre("m.w1"));
  EXPECT_THAT(results(parts[2].graph), ElementsAre("w1/half", "w1/next", "w1/sgd"));
  EXPECT_THAT(parts[3].states, ElementsAre("m.w0"));
  EXPECT_THAT(parts[4].states, ElementsAre("m.w2"));
  std::vector<int> chunks;
  for (const UpdatePart& part : parts) chunks.push_back(part.chunk);
  EXPECT_THAT(chunks, ElementsAre(0, 2, -1, 0, 2));
  for (const UpdatePart& part : parts) EXPECT_TRUE(part.kept.empty());
}

// What is made of a gradient for its norm and for its update, as a sum over ranks is, rests beside it.
TEST(Offload, KeepsWhatPartsOfOneChunkShare) {
  Builder b(ops(), "update");
  const TensorType type{DType::f32, {4}};
  const ValueId lr = b.input("lr", {DType::f32, {}}, Role::kScalar);
  const ValueId weight = b.state("w", type, Role::kParameter),
                gradient = b.state("grad.w", type, Role::kGradient, {{"of", "w"}});
  const ValueId half = b.op("affine", {gradient}, {{"scale", 0.5}}, "half");
  const ValueId sum = b.op("affine", {half}, {{"scale", 0.5}}, "sum");
  const ValueId squares = b.op("sum_squares", {sum}, {}, "squares");
  b.update(weight, b.op("sgd", {weight, sum, lr, squares}, {{"weight_decay", 0.0}}, "sgd"));
  b.output("norm", squares);
  const Graph update = b.take();
  const std::vector<UpdatePart> parts = split_update(update, update, ops(), {1, {{"w", 0}}});
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_THAT(results(parts[0].graph), ElementsAre("half", "sum", "squares"));
  EXPECT_THAT(results(parts[1].graph), ElementsAre("sgd"));
  EXPECT_THAT(parts[0].kept, ElementsAre("kept.sum"));  // the norm is an output of the whole too
}

// The sum of two gradients in memory, as a tied head has, is made twice rather than kept.
TEST(Offload, MakesAgainWhatIsMadeOfGradientsInMemory) {
  Builder b(ops(), "update");
  const TensorType type{DType::f32, {4}};
  const ValueId lr = b.input("lr", {DType::f32, {}}, Role::kScalar);
  const ValueId weight = b.state("w", type, Role::kParameter),
                moment = b.state("m.w", type, Role::kOptimizer, {{"of", "w"}});
  const ValueId sum = b.op("add",
                           {b.state("grad.w", type, Role::kGradient, {{"of", "w"}}),
                            b.state("grad.w~1", type, Role::kGradient, {{"of", "w"}})},
                           {}, "sum");
  const ValueId squares = b.op("sum_squares", {sum}, {}, "squares");
  const ValueId next = b.op("add", {moment, sum}, {}, "next");
  b.update(moment, next);
  b.update(weight, b.op("sgd", {weight, next, lr, squares}, {{"weight_decay", 0.0}}, "sgd"));
  b.output("norm", squares);
  const Graph update = b.take();
  const std::vector<UpdatePart> parts = split_update(update, update, ops());
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_THAT(results(parts[0].graph), ElementsAre("sum", "squares"));
  EXPECT_THAT(results(parts[1].graph), ElementsAre("sum", "next", "sgd"));
  EXPECT_EQ(parts[1].graph.find("kept.sum"), -1);
}

TEST(Offload, AnotherRanksShapesDecide) {
  // Of the leader the first two fit together; here they are larger.
  const Graph leader = update_graph({1, 1, 200}), own = update_graph({9, 9, 200});
  const std::vector<UpdatePart> parts = split_update(own, leader, ops());
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_THAT(parts[1].states, ElementsAre("m.w0", "m.w1"));
  EXPECT_THAT(parts[2].states, ElementsAre("m.w2"));
}

TEST(Offload, RefusesToReadWhatAnEarlierPartRenewed) {
  Builder b(ops(), "update");
  const TensorType type{DType::f32, {4}};
  const ValueId u = b.state("u", type, Role::kParameter), v = b.state("v", type, Role::kParameter);
  const ValueId mu = b.state("m.u", type, Role::kOptimizer, {{"of", "u"}}),
                mv = b.state("m.v", type, Role::kOptimizer, {{"of", "v"}});
  b.update(u, b.op("add", {u, mu}));
  b.update(v, b.op("add", {u, mv}));
  const Graph update = b.take();
  EXPECT_THAT([&] { split_update(update, update, ops()); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("%u is renewed in one part")));
}

}  // namespace
}  // namespace trireme
