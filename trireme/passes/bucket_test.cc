#include "trireme/passes/bucket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
