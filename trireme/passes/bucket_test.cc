#include "trireme/passes/bucket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/base/error.h"
#include "trireme/ir/text.h"
#include "trireme/ir/verify.h"
#include "trireme/ops/table.h"
#include "trireme/passes/memory.h"

namespace trireme {
namespace {

using testing::ElementsAre;

std::vector<std::string> ops_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.emplace_back(node.op->name);
  return names;
}

Graph bucketed(const std::string& body, size_t bytes = 1 << 20) {
  const Graph whole = parse_graph("graph g\n" + body, ops());
  Graph graph = bucket(whole, whole, ops(), {.bytes = bytes});
  verify(graph);
  return graph;
}

const std::string kSum = " {axis=\"data\", ways=2, coordinate=0, reduction=\"sum\"}\n";
const std::string kGather = " {axis=\"data\", ways=2, coordinate=0, dim=0, extent=8}\n";

// Two gradients and a computation beside them.
const std::string kGradients =
    "state %ga: f32[16]\nstate %gb: f32[16]\ninput %x: f32[16]\n"
    "%a: f32[16] = gelu(%x)\n"
    "%b: f32[16] = gelu(%a)\n"
    "%c: f32[16] = gelu(%b)\n"
    "%sa: f32[16] = all_reduce(%a)" +
    kSum + "%sb: f32[16] = all_reduce(%b)" + kSum + "update %ga <- %sa\nupdate %gb <- %sb\noutput c = %c\n";

TEST(Bucket, StartsWhenAllIsReadyAndWaitsAtTheEnd) {
  EXPECT_THAT(ops_of(bucketed(kGradients)),
              ElementsAre("gelu", "gelu", "all_reduce_start", "gelu", "all_reduce_wait"));
}

TEST(Bucket, SumsOfUnevenPartsTravelAlone) {
  std::string uneven = kGradients;
  for (size_t at = 0; (at = uneven.find("reduction", at)) != uneven.npos; at += 20)
    uneven.insert(at, "uneven=1, ");
  EXPECT_THAT(ops_of(bucketed(uneven)), ElementsAre("gelu", "all_reduce_start", "gelu", "all_reduce_start",
                                                    "gelu", "all_reduce_wait", "all_reduce_wait"));
}

// Attributes that contradict themselves are refused when a program is read, not met by a kernel.
TEST(Bucket, APackingThatIsNoneIsRefused) {
  const auto start = [](const std::string& packing) {
    return parse_graph(
        "graph g\ninput %x: f32[8]\n%p: f32[2,4] = reduce_scatter_start(%x) {axis=\"data\", "
        "ways=2, coordinate=0, reduction=\"sum\", " +
            packing + "}\noutput p = %p\n",
        ops());
  };
  EXPECT_NO_THROW(start("dims=[0], shapes=[1, 8]"));
  for (const char* packing : {"dims=[0], shapes=[1, 7]", "dims=[1], shapes=[1, 8]", "dims=[0], shapes=[2, 8]",
                              "dims=[0], shapes=[1, 8, 1]", "dims=[0, 0], shapes=[1, 8]",
                              "dims=[0], shapes=[9, 8]", "dims=[0], units=[0], shapes=[1, 8]",
                              "dims=[0], units=[1, 1], shapes=[1, 8]", "dims=[0], blocks=[3], shapes=[1, 8]"})
    EXPECT_THROW(start(packing), Error) << packing;
}

TEST(Bucket, AFullOneIsStartedAlone) {
  EXPECT_THAT(ops_of(bucketed(kGradients, 64)),
              ElementsAre("gelu", "all_reduce_start", "gelu", "all_reduce_start", "gelu", "all_reduce_wait",
                          "all_reduce_wait"));
}

// A rank whose parts are smaller, and would fill a bucket later, does as the leader does.
TEST(Bucket, RanksDecideAlike) {
  std::string smaller = kGradients;
  for (size_t at = 0; (at = smaller.find("[16]", at)) != smaller.npos;) smaller.replace(at, 4, "[15]");
  const Graph leader = parse_graph("graph g\n" + kGradients, ops());
  const Graph other = parse_graph("graph g\n" + smaller, ops());
  const auto ops_by = [&](const Graph& decides) {
    return ops_of(bucket(other, decides, ops(), {.bytes = 64}));
  };
  EXPECT_NE(ops_by(other), ops_of(bucketed(kGradients, 64)));
  EXPECT_EQ(ops_by(leader), ops_of(bucketed(kGradients, 64)));
}

TEST(Bucket, WhatIsReadAtOnceStaysAsItIs) {
  EXPECT_THAT(ops_of(bucketed("input %x: f32[16]\n%a: f32[16] = gelu(%x)\n%s: f32[16] = all_reduce(%a)" +
                              kSum + "%y: f32[16] = gelu(%s)\noutput y = %y\n")),
              ElementsAre("gelu", "all_reduce", "gelu"));
}

// It could go as soon as %x is there, but then what has come would lie in memory from the first node on.
TEST(Bucket, WhatIsPassedOnStartsWhereItStands) {
  EXPECT_THAT(ops_of(bucketed("input %x: f32[16]\n%a: f32[16] = gelu(%x)\n%b: f32[16] = silu(%a)\n"
                              "%s: f32[16] = shift(%a) {axis=\"data\", ways=2, coordinate=0, to=1, from=1}\n"
                              "%c: f32[16] = exp(%b)\n%y: f32[16] = add(%c, %s)\noutput y = %y\n")),
              ElementsAre("gelu", "silu", "shift_start", "exp", "shift_wait", "add"));
}

// One sum is made of the other, so they can not be one bucket.
TEST(Bucket, ChainsStayInOrder) {
  EXPECT_THAT(ops_of(bucketed("input %x: f32[16]\n%a: f32[16] = gelu(%x)\n%s: f32[16] = all_reduce(%a)" +
                              kSum + "%t: f32[16] = all_reduce(%s)" + kSum +
                              "%y: f32[16] = gelu(%x)\noutput y = %y\n"
                              "output t = %t\n")),
              ElementsAre("gelu", "all_reduce", "all_reduce_start", "gelu", "all_reduce_wait"));
}

// What a collective makes is not there before that is waited for, though the other node that reads it comes
// later: the second one starts after that wait, not when the first was started.
TEST(Bucket, AChainedCollectiveStartsWhenItsInputIsWaitedFor) {
  for (const std::string& second : {"all_gather(%s)" + kGather, "all_reduce(%s)" + kSum}) {
    const bool gathers = second.starts_with("all_gather");
    const std::string extent = gathers ? "4" : "8";
    EXPECT_THAT(ops_of(bucketed("input %x: f32[" + extent + "]\n%a: f32[" + extent +
                                "] = gelu(%x)\n%s: f32[" + extent + "] = all_reduce(%a)" + kSum + "%y: f32[" +
                                extent + "] = gelu(%x)\n" + "%t: f32[8] = " + second + "%z: f32[" + extent +
                                "] = gelu(%y)\noutput z = %z\noutput t = %t\n")),
                ElementsAre("gelu", "all_reduce_start", "gelu", "all_reduce_wait",
                            gathers ? "all_gather_start" : "all_reduce_start", "gelu",
                            gathers ? "all_gather_wait" : "all_reduce_wait"));
  }
}

// Three weights that are split at rest: the second is gathered while the first is used, not before.
TEST(Bucket, WeightsAreGatheredOneAhead) {
  std::string text;
  for (const char* w : {"u", "v", "w"}) text += "state %" + std::string(w) + ": f32[4]\n";
  text += "input %x: f32[8]\n";
  std::string last = "x";
  for (const std::string w : {"u", "v", "w"}) {
    text += "%whole_" + w + ": f32[8] = all_gather(%" + w + ")" + kGather;
    text += "%y_" + w + ": f32[8] = mul(%" + last + ", %whole_" + w + ")\n";
    last = "y_" + w;
  }
  EXPECT_THAT(ops_of(bucketed(text + "output y = %y_w\n", 32)),
              ElementsAre("all_gather", "all_gather_start", "mul", "all_gather_wait", "all_gather_start",
                          "mul", "all_gather_wait", "mul"));
}

// So are those that are cast to 16 bits first; each is cast when its gathering starts.
TEST(Bucket, CastsOfWeightsGoAheadWithTheirGathering) {
  std::string text;
  for (const char* w : {"u", "v", "w"}) text += "state %" + std::string(w) + ": f32[4]\n";
  text += "input %x: bf16[8]\n";
  std::string last = "x";
  for (const std::string w : {"u", "v", "w"}) {
    text += "%half_" + w + ": bf16[4] = cast(%" + w + ") {to=\"bf16\"}\n";
    text += "%whole_" + w + ": bf16[8] = all_gather(%half_" + w + ")" + kGather;
    text += "%y_" + w + ": bf16[8] = mul(%" + last + ", %whole_" + w + ")\n";
    last = "y_" + w;
  }
  EXPECT_THAT(ops_of(bucketed(text + "output y = %y_w\n", 16)),
              ElementsAre("cast", "all_gather_start", "all_gather_wait", "cast", "all_gather_start", "mul",
                          "all_gather_wait", "cast", "all_gather_start", "mul", "all_gather_wait", "mul"));
  // What is read otherwise too stays where it is made: here that of v.
  EXPECT_THAT(ops_of(bucketed(text + "output y = %y_w\noutput v = %half_v\n", 16)),
              ElementsAre("cast", "all_gather_start", "all_gather_wait", "cast", "all_gather_start", "mul",
                          "cast", "all_gather", "mul", "all_gather_wait", "mul"));
}

// A weight that is gathered for the forward part, dropped, and gathered again is not there twice.
TEST(Bucket, AWeightIsDroppedBeforeItIsGatheredAgain) {
  std::string text = "state %w: f32[4]\ninput %x: f32[8]\n%a: f32[8] = all_gather(%w)" + kGather;
  text += "%p: f32[8] = gelu(%x)\n%y: f32[8] = mul(%p, %a)\n%z: f32[8] = gelu(%y)\n";
  text += "%b: f32[8] = all_gather(%w)" + kGather + "%g: f32[8] = mul(%z, %b)\noutput g = %g\n";
  EXPECT_THAT(ops_of(bucketed(text)), ElementsAre("all_gather_start", "gelu", "all_gather_wait", "mul",
                                                  "all_gather_start", "gelu", "all_gather_wait", "mul"));
}

const std::string kScatter = " {axis=\"data\", ways=2, coordinate=1, reduction=\"sum\"";

// Parts of two gradients that are cut along different dims go in one call, packed rank by rank.
TEST(Bucket, PartsOfSeveralGradientsAreOneCall) {
  const Graph graph = bucketed(
      "state %ga: f32[8,2]\nstate %gb: f32[3,4]\ninput %x: f32[16,2]\ninput %y: f32[3,8]\n"
      "%a: f32[16,2] = gelu(%x)\n"
      "%sa: f32[8,2] = reduce_scatter(%a)" +
      kScatter + ", dim=0}\n%b: f32[3,8] = gelu(%y)\n%sb: f32[3,4] = reduce_scatter(%b)" + kScatter +
      ", dim=1}\n%c: f32[3,8] = gelu(%b)\nupdate %ga <- %sa\nupdate %gb <- %sb\noutput c = %c\n");
  EXPECT_THAT(ops_of(graph),
              ElementsAre("gelu", "gelu", "reduce_scatter_start", "gelu", "reduce_scatter_wait"));
  const Node& start = graph.nodes[2];
  EXPECT_THAT(start.attrs.integers("dims"), ElementsAre(0, 1));
  EXPECT_EQ(graph.type(start.outputs[0]).shape, (Shape{2, 8 * 2 + 3 * 4}));
}

// New values of two small weights are gathered in one call, a third one by itself: it fills a bucket.
TEST(Bucket, SmallWeightsAreGatheredTogetherAndALargeOneStraightIntoItsPlace) {
  std::string text =
      "state %u: f32[8]\nstate %v: f32[8]\nstate %w: f32[64]\ninput %x: f32[4]\ninput %y: f32[32]\n";
  for (const std::string w : {"u", "v"})
    text +=
        "%new_" + w + ": f32[4] = gelu(%x)\n%whole_" + w + ": f32[8] = all_gather(%new_" + w + ")" + kGather;
  text +=
      "%new_w: f32[32] = gelu(%y)\n"
      "%whole_w: f32[64] = all_gather(%new_w) {axis=\"data\", ways=2, coordinate=0, dim=0, extent=64}\n"
      "%z: f32[4] = gelu(%x)\n"
      "update %u <- %whole_u\nupdate %v <- %whole_v\nupdate %w <- %whole_w\noutput z = %z\n";
  const Graph graph = bucketed(text, 256);
  EXPECT_THAT(ops_of(graph),
              ElementsAre("gelu", "gelu", "all_gather_packed_start", "gelu", "all_gather_start", "gelu",
                          "all_gather_packed_wait", "all_gather_wait"));
  std::vector<size_t> offsets(graph.values.size());
  offsets[graph.find("v")] = 64;
  offsets[graph.find("w")] = 128;
  const MemoryPlan plan = plan_memory(graph, offsets, std::vector<size_t>(graph.nodes.size()));
  EXPECT_EQ(plan.values[graph.find("whole_w.started")].space, Space::kStates);
  EXPECT_TRUE(plan.copies.empty());
}

// A gradient is made, reduced and kept in one place.
TEST(Bucket, GradientsAreReducedWhereTheyAreKept) {
  const Graph graph = bucketed(kGradients);
  std::vector<size_t> offsets(graph.values.size());
  offsets[graph.find("gb")] = 64;
  const MemoryPlan plan = plan_memory(graph, offsets, std::vector<size_t>(graph.nodes.size()));
  EXPECT_TRUE(plan.copies.empty());
  for (const char* name : {"sb", "sb.started"}) {
    const Location& at = plan.values[graph.find(name)];
    EXPECT_EQ(at.space, Space::kStates) << name;
    EXPECT_EQ(at.offset, 64u) << name;
  }
  // What another op reads after the start can not be given up to it.
  EXPECT_EQ(plan.values[graph.find("b")].space, Space::kArena);
}

}  // namespace
}  // namespace trireme
