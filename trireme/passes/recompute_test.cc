// Which values are made again, where their clones stand and what they read. That bits do not change, and that
// memory is saved, tests/parity/recompute_test.cc shows with real models.
#include "trireme/passes/recompute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "tests/support/error_of.h"
#include "trireme/ir/scope.h"
#include "trireme/ir/text.h"
#include "trireme/ir/verify.h"
#include "trireme/ops/table.h"
#include "trireme/passes/autodiff.h"
#include "trireme/passes/prune.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Kind = Recompute::Kind;

// Two blocks between a stem and a head; the second product is wide, so that it is dear.
constexpr std::string_view kForwardGraph =
    "graph step\n"
    "state %w: f32[64,64] parameter\n"
    "state %v: f32[64,64] parameter\n"
    "input %x: f32[8,64]\n"
    "input %rng: i64[2] rng\n"
    "input %seed: f32[]\n"
    "%stem/tanh: f32[8,64] = tanh(%x)\n"
    "%b.0/matmul: f32[8,64] = matmul(%stem/tanh, %w)\n"
    "%b.0/gelu: f32[8,64] = gelu(%b.0/matmul)\n"
    "%b.0/dropout: f32[8,64] = dropout(%b.0/gelu, %rng) {rate=0.5, stream=7}\n"
    "%b.0/out/matmul: f32[8,64] = matmul(%b.0/dropout, %v)\n"
    "%b.1/w: f32[64,64] = tanh(%w)\n"
    "%b.1/matmul: f32[8,64] = matmul(%b.0/out/matmul, %b.1/w)\n"
    "%b.1/gelu: f32[8,64] = gelu(%b.1/matmul)\n"
    "%head/mul: f32[8,64] = mul(%b.1/gelu, %b.1/gelu)\n"
    "%head/sum: f32[] = sum(%head/mul) {dims=[0,1]}\n"
    "output loss = %head/sum\n";

Graph with_backward(std::string_view text) {
  Graph forward = parse_graph(text, ops());
  const ValueId w = forward.find("w"), v = forward.find("v"), loss = forward.find("head/sum"),
                seed = forward.find("seed");
  Builder b(ops(), std::move(forward));
  const std::vector<ValueId> gradients = differentiate(b, loss, seed, {w, v}).gradients;
  b.output("dw", gradients[0]);
  b.output("dv", gradients[1]);
  return prune(b.take());
}

Graph recomputed(const Graph& graph, const Recompute& what) {
  Graph result = prune(recompute(graph, values_made_again(graph, what)));
  verify(result);
  return result;
}

std::vector<std::string> clones(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) {
    if (has_part(scope_of(graph, node), kAgainPart)) names.push_back(graph.values[node.outputs[0]].name);
  }
  return names;
}

int place_of(const Graph& graph, std::string_view name) {
  const ValueId value = graph.find(name);
  return value == kNoValue ? -1 : graph.values[value].node;
}

// The names of what a node reads.
std::vector<std::string> inputs_of(const Graph& graph, std::string_view name) {
  std::vector<std::string> names;
  for (ValueId input : graph.nodes.at(place_of(graph, name)).inputs)
    names.push_back(graph.values[input].name);
  return names;
}

TEST(Recompute, NoneChangesNothing) {
  const Graph graph = with_backward(kForwardGraph);
  EXPECT_EQ(print(recompute(graph, values_made_again(graph, {}))), print(graph));
}

TEST(Recompute, FullMakesBlocksAgainFromTheirInputs) {
  const Graph graph = with_backward(kForwardGraph), result = recomputed(graph, {Kind::kFull});
  // What the head reads (b.1/gelu) and what b.1 is given (b.0/out/matmul) are kept.
  EXPECT_THAT(clones(result),
              ElementsAre("b.1/again/matmul", "b.0/again/matmul", "b.0/again/gelu", "b.0/again/dropout"));
  EXPECT_THAT(inputs_of(result, "b.0/again/matmul"), ElementsAre("stem/tanh", "w"));
  EXPECT_THAT(inputs_of(result, "b.0/again/dropout"), ElementsAre("b.0/again/gelu", "rng"));
  // What is made from states alone is there already.
  EXPECT_THAT(inputs_of(result, "b.1/again/matmul"), ElementsAre("b.0/out/matmul", "b.1/w"));
}

TEST(Recompute, TheBackwardPartReadsClonesAloneAndEachStandsBeforeItsFirstReader) {
  const Graph graph = with_backward(kForwardGraph), result = recomputed(graph, {Kind::kFull});
  const int begin = backward_begin(result);
  const std::vector<std::vector<int>> readers = result.readers();
  for (const char* name : {"b.0/matmul", "b.0/gelu", "b.0/dropout", "b.1/matmul"}) {
    EXPECT_LT(readers[result.find(name)].back(), begin) << name;
    const std::vector<int>& of_clone = readers[result.find(name_again(name))];
    ASSERT_FALSE(of_clone.empty()) << name;
    EXPECT_GE(place_of(result, name_again(name)), begin) << name;
  }
  // The clone of one block waits until the other block's gradients are made.
  EXPECT_GT(place_of(result, "b.0/again/matmul"), place_of(result, "b.1/grad/gelu_grad"));
}

TEST(Recompute, AClonedNodeHasTheAttributesOfItsOriginal) {
  const Graph result = recomputed(with_backward(kForwardGraph), {Kind::kFull});
  EXPECT_EQ(result.nodes[place_of(result, "b.0/again/dropout")].attrs,
            result.nodes[place_of(result, "b.0/dropout")].attrs);
}

TEST(Recompute, SelectiveRepeatsWhatIsCheapFromWhatIsKeptAnyway) {
  const Graph result = recomputed(with_backward(kForwardGraph), {Kind::kSelective});
  // gelu from the product that its gradient reads; not the products, of 2·64 FLOPs for 4 bytes.
  EXPECT_THAT(clones(result), ElementsAre("b.0/again/gelu", "b.0/again/dropout"));
}

// What is kept for one of them costs the next ones nothing more: the sum is dear, so that its 32 bytes are
// kept if anything. To make 2,048 bytes again 128 more may be kept, but for 256 bytes only 16.
TEST(Recompute, SelectiveCountsOnceWhatIsKeptForSeveral) {
  const std::string head =
      "input %x: f32[8,4096]\n"
      "input %p: f32[8,64]\n"
      "input %q: f32[8,8]\n"
      "%a/sum: f32[8] = sum(%x) {dims=[1]}\n";
  const std::string wide = "%a/wide: f32[8,64] = broadcast(%a/sum) {shape=[8,64], dims=[0]}\n",
                    narrow = "%a/narrow: f32[8,8] = broadcast(%a/sum) {shape=[8,8], dims=[0]}\n",
                    of_wide = "%a/grad/wide: f32[8,64] = mul(%a/wide, %p)\n",
                    of_narrow = "%a/grad/narrow: f32[8,8] = mul(%a/narrow, %q)\n",
                    dp = "output dp = %a/grad/wide\n", dq = "output dq = %a/grad/narrow\n";
  const auto made_again = [](const std::string& text) {
    return clones(recomputed(parse_graph(text, ops()), {Kind::kSelective}));
  };
  EXPECT_THAT(made_again(head + narrow + of_narrow + dq), IsEmpty());
  EXPECT_THAT(made_again(head + wide + narrow + of_wide + of_narrow + dp + dq),
              ElementsAre("a/again/wide", "a/again/narrow"));
}

TEST(Recompute, NamesAreScopesOrValues) {
  const Graph graph = with_backward(kForwardGraph);
  EXPECT_THAT(clones(recomputed(graph, {Kind::kNamed, {"b.1"}})), ElementsAre("b.1/again/matmul"));
  EXPECT_THAT(clones(recomputed(graph, {Kind::kNamed, {"b.*"}})),
              testing::UnorderedElementsAreArray(clones(recomputed(graph, {Kind::kFull}))));
  EXPECT_THAT(clones(recomputed(graph, {Kind::kNamed, {"b.0/gelu", "b.0/dropout"}})),
              ElementsAre("b.0/again/gelu", "b.0/again/dropout"));
  // By its name also what others are given.
  EXPECT_THAT(clones(recomputed(graph, {Kind::kNamed, {"b.0/out/matmul"}})),
              ElementsAre("b.0/out/again/matmul"));
}

// In whatever order they stand, the widest counts.
TEST(Recompute, NamesMayOverlap) {
  const Graph graph = with_backward(kForwardGraph);
  const std::vector<std::string> whole = clones(recomputed(graph, {Kind::kNamed, {"b.0"}}));
  const std::vector<std::vector<std::string>> overlapping = {
      {"b.0", "b.0/out"}, {"b.0/out", "b.0"}, {"b.0", "b.0"}, {"b.0/*", "b.0"}};
  for (const std::vector<std::string>& names : overlapping)
    EXPECT_EQ(clones(recomputed(graph, {Kind::kNamed, names})), whole) << names[0];
  EXPECT_EQ(clones(recomputed(graph, {Kind::kNamed, {"b.*", "b.1"}})),
            clones(recomputed(graph, {Kind::kNamed, {"b.*"}})));
  // What is made from states alone is never kept, so that naming it changes nothing.
  EXPECT_THAT(clones(recomputed(graph, {Kind::kNamed, {"b.1", "b.1/w"}})), ElementsAre("b.1/again/matmul"));
}

TEST(Recompute, NamesThatAreNotThereAreRefused) {
  const Graph graph = with_backward(kForwardGraph);
  EXPECT_THAT(error_of([&] {
                recomputed(graph, {Kind::kNamed, {"b.2"}});
              }),
              HasSubstr("did you mean 'b.0'?"));
  const std::string without_blocks =
      std::regex_replace(std::string(kForwardGraph), std::regex("%b\\.([01])"), "%b$1_");
  EXPECT_THAT(error_of([&] { recomputed(with_backward(without_blocks), {Kind::kFull}); }),
              HasSubstr("this model has no blocks"));
  const Graph forward_only = parse_graph(kForwardGraph, ops());
  EXPECT_THAT(values_made_again(forward_only, {Kind::kNamed, {"nothing"}}), Not(IsEmpty()));
}

// Weights that are gathered once for the forward part and once more for the backward part.
TEST(Recompute, ClonesReadWhatTheBackwardPartGathers) {
  const Graph graph = parse_graph(
      "state %w: f32[4,4]\n"
      "input %x: f32[4,4]\n"
      "%w.all: f32[8,4] = all_gather(%w) {axis=\"data\", ways=2, coordinate=0, dim=0, extent=8}\n"
      "%b.0/matmul: f32[4,8] = matmul(%x, %w.all) {transpose_b=1}\n"
      "%b.0/relu: f32[4,8] = relu(%b.0/matmul)\n"
      "%loss: f32[] = sum(%b.0/relu) {dims=[0,1]}\n"
      "%b.0/grad/relu_grad: f32[4,8] = relu_grad(%b.0/relu, %b.0/matmul)\n"
      "%w.all~2: f32[8,4] = all_gather(%w) {axis=\"data\", ways=2, coordinate=0, dim=0, extent=8}\n"
      "%b.0/grad/matmul: f32[4,4] = matmul(%b.0/grad/relu_grad, %w.all~2)\n"
      "output loss = %loss\n"
      "output dx = %b.0/grad/matmul\n",
      ops());
  const Graph result = recomputed(graph, {Kind::kFull});
  EXPECT_THAT(inputs_of(result, "b.0/again/matmul"), ElementsAre("x", "w.all~2"));
  EXPECT_LT(place_of(result, "w.all~2"), place_of(result, "b.0/again/matmul"));
  EXPECT_GE(place_of(result, "w.all~2"), backward_begin(graph));
}

TEST(Recompute, FullRunsCollectivesAgainUnlessThePlanKeepsThem) {
  const Graph graph = parse_graph(
      "state %w: f32[4,4]\n"
      "input %x: f32[4,4]\n"
      "%b.0/matmul: f32[4,4] = matmul(%x, %w)\n"
      "%b.0/matmul.sum: f32[4,4] = all_reduce(%b.0/matmul) {axis=\"tensor\", ways=2, coordinate=0, "
      "reduction=\"sum\"}\n"
      "%b.0/gelu: f32[4,4] = gelu(%b.0/matmul.sum)\n"
      "%b.0/mul: f32[4,4] = mul(%b.0/gelu, %b.0/gelu)\n"
      "%loss: f32[] = sum(%b.0/mul) {dims=[0,1]}\n"
      "%b.0/grad/mul: f32[4,4] = mul(%b.0/gelu, %b.0/matmul.sum)\n"
      "output loss = %loss\n"
      "output dx = %b.0/grad/mul\n",
      ops());
  EXPECT_THAT(clones(recomputed(graph, {Kind::kFull})),
              ElementsAre("b.0/again/matmul", "b.0/again/matmul.sum", "b.0/again/gelu"));
  EXPECT_THAT(clones(recomputed(graph, {Kind::kFullKeepCollectives})), ElementsAre("b.0/again/gelu"));
  EXPECT_THAT(clones(recomputed(graph, {Kind::kNamed, {"b.0"}})), ElementsAre("b.0/again/gelu"));
  EXPECT_THAT(clones(recomputed(graph, {Kind::kNamed, {"b.0", "b.0/matmul.sum"}})),
              ElementsAre("b.0/again/matmul", "b.0/again/matmul.sum", "b.0/again/gelu"));
}

TEST(Recompute, KeptBytesAreThoseThatTheBackwardPartReads) {
  const Graph graph = with_backward(kForwardGraph);
  constexpr size_t kValue = 8 * 64 * 4;
  // stem/tanh, b.0/matmul, b.0/dropout, b.0/out/matmul, b.1/matmul, b.1/gelu; weights are not counted.
  EXPECT_EQ(kept_bytes(graph), 6 * kValue);
  EXPECT_EQ(kept_bytes(recomputed(graph, {Kind::kFull})), 3 * kValue);
  EXPECT_EQ(kept_bytes(recomputed(graph, {Kind::kSelective})), 5 * kValue);
}

}  // namespace
}  // namespace trireme
