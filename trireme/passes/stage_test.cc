// Cuts of a model of three units, small enough to be read.
#include "trireme/passes/stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/base/error.h"
#include "trireme/ir/builder.h"
#include "trireme/ops/table.h"
#include "trireme/passes/autodiff.h"
#include "trireme/passes/prune.h"
#include "trireme/passes/second_holder.h"
#include "trireme/passes/stage_update.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// in: relu(x·w), mid: relu(h·v) of as many features, out: the sum of h·w, with the weight of `in`.
Graph forward_graph(int64_t features = 4) {
  Builder b(ops(), "first");
  const ValueId x = b.input("x", {DType::f32, {2, features}}, Role::kBatch);
  const ValueId w = b.state("w", {DType::f32, {features, features}}, Role::kParameter),
                v = b.state("v", {DType::f32, {features, features}}, Role::kParameter);
  const auto layer = [&](const char* unit, ValueId input, ValueId weight) {
    const Builder::Scope scope(b, unit);
    return b.op("relu", {b.op("matmul", {input, weight})});
  };
  const ValueId hidden = layer("mid", layer("in", x, w), v);
  const Builder::Scope scope(b, "out");
  const ValueId flat = b.op("reshape", {hidden}, {{"shape", std::vector<int64_t>{2 * features}}});
  const ValueId again = b.op("reshape", {flat}, {{"shape", std::vector<int64_t>{2, features}}});
  b.output("loss", b.op("sum", {b.op("matmul", {again, w})}, {{"dims", std::vector<int64_t>{0, 1}}}),
           OutputRole::kAddend);
  return b.take();
}

// With gradients, one state for each use of w.
Graph joint_graph() {
  Graph forward = forward_graph();
  const ValueId loss = forward.outputs[0].value, w = forward.find("w"), v = forward.find("v");
  Builder b(ops(), std::move(forward));
  const ValueId seed = b.input("loss_scale", {DType::f32, {}}, Role::kScalar);
  const Backward backward = differentiate(b, loss, seed, {w, v});
  EXPECT_EQ(backward.addends[0].size(), 2u);
  EXPECT_EQ(backward.addends[1].size(), 1u);
  const auto store = [&](const char* name, const char* of, ValueId value) {
    b.update(b.state(name, b.type(value), Role::kGradient, {{"of", of}}), value);
  };
  store("grad.w", "w", backward.addends[0][1]);
  store("grad.w~2", "w", backward.addends[0][0]);
  store("grad.v", "v", backward.gradients[1]);
  return prune(b.take());
}

std::vector<std::string> names(const Staged& staged) {
  std::vector<std::string> result;
  for (const Piece& piece : staged.pieces) result.push_back(piece.graph.name);
  return result;
}

const Graph& piece(const Staged& staged, std::string_view name) {
  return std::ranges::find(staged.pieces, name, [](const Piece& p) { return p.graph.name; })->graph;
}

std::vector<std::string> states(const Graph& graph) {
  std::vector<std::string> result;
  for (const Value& value : graph.values) {
    if (value.kind == Value::Kind::kState) result.push_back(value.name);
  }
  return result;
}

std::vector<std::string> updated(const Graph& graph) {
  std::vector<std::string> result;
  for (const Update& update : graph.updates) result.push_back(graph.values[update.state].name);
  return result;
}

TEST(Cut, IsAsEvenAsUnitsAllow) {
  const Cut three = balanced_cut(forward_graph(), 3);
  EXPECT_THAT(three.units, ElementsAre("in", "mid", "out"));
  EXPECT_EQ(three.chunk_of_name("mid/matmul"), 1);
  EXPECT_EQ(three.chunk_of_name("out/grad/matmul"), 2);
  EXPECT_EQ(three.chunk_of_name("grad.w/add"), -1);
  EXPECT_EQ(three.chunk_of_name("w"), -1);
  EXPECT_EQ(balanced_cut(forward_graph(), 2).chunk_of.at("out"), 1);
  EXPECT_EQ(cut_at(forward_graph(), 2, {"mid"}).chunk_of.at("mid"), 1);
  EXPECT_EQ(cut_at(forward_graph(), 2, {"out"}).chunk_of.at("mid"), 0);
}

// A tied weight is nobody's own; what has little goes with its neighbours.
TEST(Cut, ByWeightsHasAboutTheLargestUnitsInEachChunk) {
  Builder b(ops(), "forward");
  const auto weight = [&](const char* name, int64_t rows) {
    return b.state(name, {DType::f32, {rows, 64}}, Role::kParameter);
  };
  const ValueId tied = weight("tied", 64), small = weight("small", 64);
  ValueId x = b.input("x", {DType::f32, {2, 64}}, Role::kBatch);
  x = b.op("matmul", {x, tied}, {}, "embed/matmul");
  x = b.op("matmul", {x, weight("w0", 64)}, {}, "h.0/matmul");
  x = b.op("matmul", {x, weight("w1", 64)}, {}, "h.1/matmul");
  x = b.op("matmul", {x, small}, {}, "h.2/matmul");
  x = b.op("matmul",
           {x, b.op("reshape", {weight("gain", 1)}, {{"shape", std::vector<int64_t>{64, 1}}}, "norm/gain")},
           {}, "norm/matmul");
  b.output("y",
           b.op("matmul", {b.op("matmul", {x, weight("w3", 1)}, {}, "head/own"), tied}, {}, "head/matmul"));
  const Cut cut = cut_by_weights(b.take());
  std::vector<int> chunks;
  for (const std::string& unit : cut.units) chunks.push_back(cut.chunk_of.at(unit));
  EXPECT_THAT(cut.units, ElementsAre("embed", "h.0", "h.1", "h.2", "norm", "head"));
  EXPECT_THAT(chunks, ElementsAre(0, 0, 1, 2, 2, 2));
  EXPECT_EQ(cut.chunks, 3);
}

TEST(Cut, RefusesWhatIsNoUnit) {
  const auto complaint = [](int chunks, const std::vector<std::string>& begins) -> std::string {
    try {
      begins.empty() ? balanced_cut(forward_graph(), chunks) : cut_at(forward_graph(), chunks, begins);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(complaint(4, {}), HasSubstr("has 4 chunks"));
  EXPECT_THAT(complaint(4, {}), HasSubstr("3 parts that can be told apart: in, mid, out"));
  EXPECT_THAT(complaint(2, {"midd"}), HasSubstr("did you mean 'mid'?"));
  EXPECT_THAT(complaint(3, {"out", "mid"}), HasSubstr("come in the order in, mid, out"));
  EXPECT_THAT(complaint(2, {"in"}), HasSubstr("each stage needs one at least"));
  EXPECT_THAT(complaint(3, {"mid"}),
              HasSubstr("names 1 scopes at which to cut (stages), but a pipeline of 3"));
}

TEST(OwnCasts, AreMadeByEachChunkThatReadsThem) {
  Builder b(ops(), "forward");
  const ValueId w = b.state("w", {DType::f32, {4, 4}}, Role::kParameter);
  const ValueId x = b.input("x", {DType::bf16, {2, 4}}, Role::kBatch);
  const ValueId cast = b.op("cast", {w}, {{"to", "bf16"}}, "in/w.bf16");
  const ValueId h = b.op("matmul", {x, cast}, {}, "in/matmul");
  b.output("y", b.op("matmul", {h, cast}, {}, "out/matmul"));
  const Graph graph = b.take();
  const Graph cut = with_own_casts(graph, balanced_cut(graph, 2), ops());
  ASSERT_EQ(cut.nodes.size(), 4u);
  EXPECT_EQ(cut.values[cut.nodes[3].inputs[1]].name, "out/w.bf16");
  EXPECT_EQ(cut.values[cut.nodes[1].inputs[1]].name, "in/w.bf16");
}

// Targets that ranks gather have no scope: the loss makes them, not the first chunk for it. Whoever reads
// logits has the targets too, wherever logits were made.
TEST(Stage, MakesOfInputsWhereItIsReadAndEndsWithTheOutputs) {
  Builder b(ops(), "evaluate");
  const ValueId x = b.input("x", {DType::f32, {2, 4}}, Role::kBatch);
  const ValueId targets = b.input("targets", {DType::f32, {2, 4}}, Role::kBatch);
  const ValueId whole = b.op("relu", {targets}, {}, "targets.gathered");
  const ValueId logits = b.op("relu", {x}, {}, "in/relu");
  b.output("loss", b.op("add", {b.op("relu", {logits}, {}, "out/relu"), whole}, {}, "out/add"));
  b.output("logits", logits, OutputRole::kRows);
  const Graph graph = b.take();
  const Staged staged = stage(graph, balanced_cut(graph, 2), WeightPhase::kNone, ops());
  ASSERT_EQ(staged.crossings.size(), 1u);
  EXPECT_EQ(staged.crossings[0].state, "stash.in/relu");
  EXPECT_THAT(piece(staged, "evaluate.0.forward").outputs, IsEmpty());
  EXPECT_THAT(piece(staged, "evaluate.1.forward").outputs, testing::SizeIs(2));
  EXPECT_GE(piece(staged, "evaluate.1.forward").find("targets"), 0);
}

TEST(Stage, HandsOnWhatCrossesAndNothingElse) {
  const Graph graph = joint_graph();
  const Staged staged = stage(graph, balanced_cut(forward_graph(), 3), WeightPhase::kNone, ops());
  EXPECT_THAT(names(staged), ElementsAre("first.0.forward", "first.1.forward", "first.2.forward",
                                         "first.2.backward", "first.1.backward", "first.0.backward"));
  // The activations of the two cuts, which the gradient of relu reads too, and backward what each unit handed
  // on.
  std::map<std::string, std::set<Crossing::Reader>> crossings;
  for (const Crossing& crossing : staged.crossings) crossings[crossing.state] = crossing.readers;
  using Readers = std::set<Crossing::Reader>;
  EXPECT_EQ(crossings.at("stash.in/relu"),
            (Readers{{0, Phase::kBackward}, {1, Phase::kForward}, {1, Phase::kBackward}}));
  // Of reshapes the source, which chunk 2 has as it came.
  EXPECT_EQ(crossings.at("stash.mid/relu"),
            (Readers{{1, Phase::kBackward}, {2, Phase::kForward}, {2, Phase::kBackward}}));
  EXPECT_FALSE(crossings.contains("stash.out/reshape~2"));
  EXPECT_THAT(states(piece(staged, "first.1.forward")),
              UnorderedElementsAre("v", "stash.in/relu", "stash.mid/relu"));
  EXPECT_THAT(updated(piece(staged, "first.2.backward")), testing::Contains("grad.w~2"));
  EXPECT_THAT(updated(piece(staged, "first.0.backward")), ElementsAre("grad.w"));
  EXPECT_THAT(piece(staged, "first.2.forward").outputs, testing::SizeIs(1));
  size_t nodes = 0;
  for (const Piece& one : staged.pieces) nodes += one.graph.nodes.size();
  EXPECT_GE(nodes, graph.nodes.size());  // views are made again
}

TEST(Stage, PutsGradientsOfWeightsIntoAPhaseOfTheirOwn) {
  const Staged staged = stage(joint_graph(), balanced_cut(forward_graph(), 3), WeightPhase::kApart, ops());
  EXPECT_THAT(updated(piece(staged, "first.1.weight")), ElementsAre("grad.v"));
  for (const char* name : {"first.1.backward", "first.2.backward"}) {
    for (const std::string& state : updated(piece(staged, name)))
      EXPECT_THAT(state, testing::StartsWith("stash."));
  }
  // Nothing waits for what the first chunk does backward.
  EXPECT_THAT(names(staged), testing::Not(testing::Contains("first.0.backward")));
}

// Two weights on two stages, and the norm of both gradients.
Graph update_of_two() {
  Builder b(ops(), "update");
  const ValueId lr = b.input("lr", {DType::f32, {}}, Role::kScalar);
  ValueId squares = kNoValue;
  std::vector<std::pair<ValueId, ValueId>> pairs;
  for (const char* name : {"v", "w"}) {
    const ValueId weight = b.state(name, {DType::f32, {4}}, Role::kParameter);
    const ValueId gradient = b.state("grad." + std::string(name), {DType::f32, {4}}, Role::kGradient);
    const ValueId part = b.op("sum_squares", {gradient});
    squares = squares == kNoValue ? part : b.op("add", {squares, part});
    pairs.emplace_back(weight, gradient);
  }
  for (const auto& [weight, gradient] : pairs)
    b.update(weight, b.op("sgd", {weight, gradient, lr, squares}, {{"weight_decay", 0.0}}));
  b.output("norm", squares);
  return b.take();
}

TEST(StageUpdate, GathersNumbersAndKeepsTheOrderOfOneRank) {
  const StateStages where = {{"v", {0}}, {"grad.v", {0}}, {"w", {1}}, {"grad.w", {1}}};
  for (const int number : {0, 1}) {
    const StagedUpdate own = stage_updates(update_of_two(), where, 2, ops())[number];
    EXPECT_THAT(own.borrowed, IsEmpty());
    EXPECT_THAT(updated(own.graph), ElementsAre(number == 0 ? "v" : "w"));
    const auto collectives = std::ranges::count_if(
        own.graph.nodes, [](const Node& node) { return node.op->collective.has_value(); });
    EXPECT_EQ(collectives, 1);
    // The sum is made of what was gathered, in the order of the whole graph, on both.
    const Node& sum = own.graph.nodes[own.graph.values[own.graph.outputs[0].value].node];
    EXPECT_EQ(own.graph.values[sum.inputs[0]].name, "sum_squares.all_gather.pipe");
    EXPECT_EQ(own.graph.values[sum.inputs[1]].name, "sum_squares~2.all_gather.pipe");
  }
}

TEST(StageUpdate, BorrowsGradientsOfSharedWeightsAndRefusesTheRest) {
  Builder b(ops(), "update");
  const TensorType type{DType::f32, {4}};
  const ValueId lr = b.input("lr", {DType::f32, {}}, Role::kScalar), w = b.state("w", type, Role::kParameter);
  const ValueId sum =
      b.op("add", {b.state("grad.w", type, Role::kGradient), b.state("grad.w~1", type, Role::kGradient)});
  b.update(w, b.op("sgd", {w, sum, lr, lr}, {{"weight_decay", 0.0}}));
  const Graph graph = b.take();
  const StateStages where = {{"w", {0, 1}}, {"grad.w", {0}}, {"grad.w~1", {1}}};
  EXPECT_THAT(stage_updates(graph, where, 2, ops())[0].borrowed,
              ElementsAre(StagedUpdate::Borrowed{"grad.w~1", 1}));
  EXPECT_THAT(stage_updates(graph, where, 2, ops())[1].borrowed,
              ElementsAre(StagedUpdate::Borrowed{"grad.w", 0}));
  // A third stage gets the square from the stage that has the weight, and no gradient.
  Builder norm(ops(), "update");
  const ValueId rate = norm.input("lr", {DType::f32, {}}, Role::kScalar);
  const ValueId tied = norm.state("w", type, Role::kParameter),
                other_weight = norm.state("v", type, Role::kParameter);
  const auto gradient = [&](const char* name, const char* of) {
    return norm.state(name, type, Role::kGradient, {{"of", of}});
  };
  const ValueId both = norm.op("add", {gradient("grad.w", "w"), gradient("grad.w~1", "w")});
  const ValueId square = norm.op("sum_squares", {both});
  norm.update(tied, norm.op("sgd", {tied, both, rate, square}, {{"weight_decay", 0.0}}));
  norm.update(other_weight,
              norm.op("sgd", {other_weight, gradient("grad.v", "v"), rate, square}, {{"weight_decay", 0.0}}));
  const Graph with_norm = norm.take();
  const StateStages three = {{"w", {0, 2}}, {"grad.w", {0}}, {"grad.w~1", {2}}, {"v", {1}}, {"grad.v", {1}}};
  EXPECT_THAT(stage_updates(with_norm, three, 3, ops())[1].borrowed, IsEmpty());
  EXPECT_THAT(stage_updates(with_norm, three, 3, ops())[2].borrowed,
              ElementsAre(StagedUpdate::Borrowed{"grad.w", 0}));
  const StateStages apart = {{"w", {0}}, {"grad.w", {1}}, {"grad.w~1", {1}}};
  EXPECT_THAT(stage_updates(graph, apart, 2, ops())[0].borrowed, testing::SizeIs(2));
  Builder other(ops(), "update");
  const ValueId u = other.state("u", type, Role::kParameter), v = other.state("v", type, Role::kParameter);
  other.update(u, other.op("add", {u, v}));
  try {
    stage_updates(other.take(), {{"u", {0}}, {"v", {1}}}, 2, ops());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("stage 0 of the pipeline needs the parameter %v of stage 1"));
  }
}

TEST(SecondHolder, AddsUpUnderANameOfItsOwn) {
  Builder b(ops(), "first.0.backward");
  const TensorType type{DType::f32, {4}};
  b.update(b.state("grad.w", type, Role::kGradient, {{"of", "w"}}), b.state("stash.x", type, Role::kStash));
  const Graph piece = for_second_holder(b.take());
  EXPECT_THAT(updated(piece), ElementsAre("grad.w~second"));
  EXPECT_EQ(piece.values[piece.updates[0].state].attrs.text("addend_of"), "grad.w");
  EXPECT_EQ(piece.find("stash.x"), piece.updates[0].value);

  const Graph update = with_sums_of_holders(update_of_two(), {"grad.w"}, ops());
  const auto operands = [&](std::string_view name) {
    std::vector<std::string> result;
    for (ValueId input : update.nodes[update.values[update.find(name)].node].inputs)
      result.push_back(update.values[input].name);
    return result;
  };
  EXPECT_THAT(operands("grad.w.of_holders"), ElementsAre("grad.w", "grad.w~second"));
  EXPECT_THAT(operands("sum_squares~2"), ElementsAre("grad.w.of_holders"));
  EXPECT_THAT(operands("sum_squares"), ElementsAre("grad.v"));
}

}  // namespace
}  // namespace trireme
