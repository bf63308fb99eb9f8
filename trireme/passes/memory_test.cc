// Where values lie: single decisions on graphs in text, and the whole contract on thousands of random graphs.
#include "trireme/passes/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "trireme/base/error.h"
#include "trireme/ir/builder.h"
#include "trireme/ir/text.h"
#include "trireme/ops/table.h"
#include "trireme/passes/memory_check.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Planned {
  Graph graph;
  std::vector<size_t> state_offsets, workspace_bytes;
  MemoryPlan plan;

  explicit Planned(Graph made, size_t workspace = 0)
      : graph(std::move(made)),
        state_offsets(graph.values.size(), 0),
        workspace_bytes(graph.nodes.size(), workspace) {
    size_t next = 0;
    for (size_t i = 0; i < graph.values.size(); ++i) {
      if (graph.values[i].kind != Value::Kind::kState) continue;
      state_offsets[i] = next;
      next += (graph.values[i].type.bytes() + 63) / 64 * 64;
    }
    plan = plan_memory(graph, state_offsets, workspace_bytes);
  }
  explicit Planned(std::string_view text, size_t workspace = 0)
      : Planned(parse_graph(text, ops()), workspace) {}

  const Location& at(std::string_view name) const { return plan.values[graph.find(name)]; }
  bool together(std::string_view a, std::string_view b) const {
    return at(a).space == at(b).space && at(a).offset == at(b).offset;
  }
  std::string fault() const { return find_memory_fault(graph, plan, state_offsets); }
};

// Two sums that are started together. What each is made from is free for it, or is read again by `tail`.
Planned started_together(const std::string& tail) {
  const std::string attrs = "axis=\"data\", ways=2, coordinate=0, reduction=\"sum\"";
  return Planned(
      "input %x: f32[16]\n%a: f32[16] = neg(%x)\n%b: f32[16] = exp(%x)\n"
      "%pa: f32[16], %pb: f32[16] = all_reduce_start(%a, %b) {" +
      attrs + "}\n%sa: f32[16], %sb: f32[16] = all_reduce_wait(%pa, %pb) {" + attrs + ", shape=[16]}\n" +
      tail + "output a = %sa\noutput b = %sb\n");
}

TEST(Memory, WhatOneStartCopiesLiesTogetherAndIsOneCall) {
  const Planned p = started_together("%c: f32[16] = add(%a, %b)\noutput c = %c\n");
  EXPECT_EQ(p.at("pb").offset, p.at("pa").offset + 64);
  EXPECT_THAT(p.plan.runs[2], testing::ElementsAre(2));
  EXPECT_THAT(p.plan.runs[3], testing::ElementsAre(2)) << "the wait has the runs of its start";
  EXPECT_EQ(p.fault(), "");
}

// Other sizes would put them elsewhere on another rank, which would then make other calls.
TEST(Memory, NeighboursByChanceAreNotOneCall) {
  const Planned p = started_together("");
  ASSERT_TRUE(p.together("a", "pa") && p.together("b", "pb"));
  ASSERT_EQ(p.at("pb").offset, p.at("pa").offset + 64);
  EXPECT_THAT(p.plan.runs[2], testing::ElementsAre(1, 1));
  EXPECT_THAT(p.plan.runs[3], testing::ElementsAre(1, 1));
}

TEST(Memory, AChainOfElementWiseOpsNeedsOneBlock) {
  const Planned p(
      "input %x: f32[64]\n"
      "%a: f32[64] = neg(%x)\n"
      "%b: f32[64] = exp(%a)\n"
      "%c: f32[64] = tanh(%b)\n"
      "output y = %c\n");
  EXPECT_EQ(p.at("x").space, Space::kInputs);
  EXPECT_EQ(p.at("a").space, Space::kArena) << "inputs keep their contents";
  EXPECT_TRUE(p.together("a", "c"));
  EXPECT_EQ(p.plan.arena_bytes, 256u);
  EXPECT_EQ(p.plan.input_bytes, 256u);
  EXPECT_EQ(p.fault(), "");
}

TEST(Memory, NotInPlaceWhenTheInputIsReadLaterOrGivenOut) {
  const Planned later(
      "input %x: f32[64]\n"
      "%a: f32[64] = neg(%x)\n"
      "%b: f32[64] = exp(%a)\n"
      "%c: f32[64] = mul(%b, %a)\n"
      "output y = %c\n");
  EXPECT_FALSE(later.together("a", "b"));
  EXPECT_EQ(later.plan.arena_bytes, 512u) << "%c lies over one of them";
  const Planned output("input %x: f32[64]\n%a: f32[64] = neg(%x)\n%b: f32[64] = exp(%a)\noutput a = %a\n");
  EXPECT_FALSE(output.together("a", "b"));
}

TEST(Memory, NotInPlaceWhereTheRecordDoesNotAllowIt) {
  const Planned p(
      "input %x: f32[8,8]\n"
      "%a: f32[8,8] = neg(%x)\n"
      "%b: f32[8,8] = transpose(%a) {perm=[1,0]}\n"
      "output y = %b\n");
  EXPECT_FALSE(p.together("a", "b"));
}

TEST(Memory, NotOverASmallerInput) {
  const Planned p(
      "input %x: f32[4,16]\n"
      "input %z: f32[16]\n"
      "%b: f32[16] = neg(%z)\n"
      "%y: f32[4,16] = add(%x, %b)\n"
      "output y = %y\n");
  EXPECT_FALSE(p.together("b", "y"));
  EXPECT_EQ(p.fault(), "");
}

TEST(Memory, AReshapeKeepsItsSourceAlive) {
  const Planned p(
      "input %x: f32[64]\n"
      "%a: f32[64] = neg(%x)\n"
      "%r: f32[8,8] = reshape(%a) {shape=[8,8]}\n"
      "%b: f32[64] = exp(%a)\n"
      "%c: f32[8,8] = transpose(%r) {perm=[1,0]}\n"
      "output b = %b\noutput c = %c\n");
  EXPECT_TRUE(p.together("a", "r"));
  EXPECT_FALSE(p.together("a", "b"));
  EXPECT_EQ(p.fault(), "");
}

TEST(Memory, AnUpdateIsWrittenStraightIntoItsState) {
  const Planned p(
      "state %w: f32[16]\n"
      "input %g: f32[16]\n"
      "input %lr: f32[]\n"
      "%w2: f32[16] = sgd(%w, %g, %lr, %lr)\n"
      "update %w <- %w2\n");
  EXPECT_TRUE(p.together("w", "w2"));
  EXPECT_TRUE(p.plan.copies.empty());
  EXPECT_EQ(p.plan.arena_bytes, 0u);
}

TEST(Memory, AnUpdateWaitsWhenTheStateIsReadLater) {
  const Planned p(
      "state %w: f32[16]\n"
      "%w2: f32[16] = neg(%w)\n"
      "%y: f32[16] = exp(%w)\n"
      "update %w <- %w2\noutput y = %y\n");
  EXPECT_FALSE(p.together("w", "w2"));
  ASSERT_EQ(p.plan.copies.size(), 1u);
  EXPECT_EQ(p.fault(), "");
}

TEST(Memory, AnUpdateWaitsWhenAReshapeOfTheStateIsReadLater) {
  const Planned p(
      "state %w: f32[16]\n"
      "%r: f32[4,4] = reshape(%w) {shape=[4,4]}\n"
      "%w2: f32[16] = neg(%w)\n"
      "%y: f32[4,4] = transpose(%r) {perm=[1,0]}\n"
      "update %w <- %w2\noutput y = %y\n");
  EXPECT_FALSE(p.together("w", "w2"));
  EXPECT_EQ(p.fault(), "");
}

TEST(Memory, AnInputAsTheNewValueIsCopied) {
  const Planned p("state %w: f32[16]\ninput %x: f32[16]\nupdate %w <- %x\n");
  EXPECT_EQ(p.plan.copies.size(), 1u);
  EXPECT_EQ(p.fault(), "");
}

TEST(Memory, OneValueMayUpdateTwoStates) {
  const Planned p(
      "state %a: f32[16]\n"
      "state %b: f32[16]\n"
      "input %x: f32[16]\n"
      "%y: f32[16] = neg(%x)\n"
      "update %a <- %y\nupdate %b <- %y\n");
  EXPECT_EQ(p.plan.copies.size(), 1u);
  EXPECT_EQ(p.fault(), "");
}

TEST(Memory, RefusesAnOldValueThatAnotherStateTakes) {
  EXPECT_THAT([] { Planned("state %a: f32[4]\nstate %b: f32[4]\nupdate %a <- %b\nupdate %b <- %a\n"); },
              ThrowsMessage<Error>(HasSubstr("the new value of %a is the old value of %b")));
}

TEST(Memory, RefusesToGiveOutTheOldValueOfAnUpdatedState) {
  const char* const tail = "%w2: f32[4] = neg(%w)\nupdate %w <- %w2\n";
  EXPECT_THAT([&] { Planned(std::string("state %w: f32[4]\n") + tail + "output old = %w\n"); },
              ThrowsMessage<Error>(HasSubstr("output 'old' is the old value of %w")));
  EXPECT_THAT(
      [&] {
        Planned(std::string("state %w: f32[4]\n%r: f32[2,2] = reshape(%w) {shape=[2,2]}\n") + tail +
                "output old = %r\n");
      },
      ThrowsMessage<Error>(HasSubstr("output 'old' is the old value of %w")));
}

TEST(Memory, WorkspaceLiesApartFromInputsAndResults) {
  const Planned p("input %x: f32[64]\n%a: f32[64] = neg(%x)\n%b: f32[64] = exp(%a)\noutput y = %b\n", 128);
  EXPECT_EQ(p.plan.arena_bytes, 256u + 128u);
  EXPECT_EQ(p.fault(), "");
}

// Graphs of element-wise ops, reshapes, transposes, splits and two-result updates, with random lifetimes.
class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : random_(seed), b_(ops(), "random") {}

  Graph make() {
    scalar_ = b_.input("scalar", {DType::f32, {}});
    for (int i = 0, n = 1 + below(3); i < n; ++i)
      add(b_.input("x" + std::to_string(i), {DType::f32, shape()}));
    for (int i = 0, n = below(4); i < n; ++i) {
      states_.push_back(b_.state("w" + std::to_string(i), {DType::f32, shape()}));
      add(states_.back());
    }
    for (int i = 0, n = 1 + below(14); i < n; ++i) step();
    for (ValueId state : states_) {
      const ValueId value = any();
      if (below(3) && b_.type(value) == b_.type(state)) b_.update(state, value);
    }
    for (int i = 0, n = below(3); i < n; ++i) b_.output("y" + std::to_string(i), any());
    return b_.take();
  }

 private:
  int below(int bound) { return static_cast<int>(random_() % static_cast<uint32_t>(bound)); }
  Shape shape() { return below(2) ? Shape{8, 8} : Shape{64}; }
  void add(ValueId value) { values_.push_back(value); }
  ValueId any() { return values_[below(static_cast<int>(values_.size()))]; }
  ValueId like(ValueId other) {
    for (int tries = 0; tries < 8; ++tries) {
      if (const ValueId value = any(); b_.type(value) == b_.type(other)) return value;
    }
    return other;
  }
  void step() {
    const ValueId x = any();
    const bool square = b_.shape(x).rank() == 2;
    switch (below(7)) {
      case 0:
        return add(b_.op("neg", {x}));
      case 1:
      case 2:
        return add(b_.op("add", {x, like(x)}));
      case 3:
        return add(b_.op("reshape", {x},
                         {{"shape", square ? std::vector<int64_t>{64} : std::vector<int64_t>{8, 8}}}));
      case 4:
        return add(square ? b_.op("transpose", {x}, {{"perm", std::vector<int64_t>{1, 0}}})
                          : b_.op("softmax_grad", {x, like(x)}));
      case 5: {
        const std::vector<ValueId> parts =
            b_.node("split", {x},
                    {{"dim", int64_t{0}},
                     {"sizes", square ? std::vector<int64_t>{3, 5} : std::vector<int64_t>{32, 32}}});
        return add(b_.op("concat", {parts[0], parts[1]}, {{"dim", int64_t{0}}}));
      }
      default:
        for (ValueId result :
             b_.node("momentum", {x, like(x), like(x), scalar_, scalar_}, {{"momentum", 0.9}}))
          add(result);
    }
  }

  std::mt19937 random_;
  Builder b_;
  std::vector<ValueId> values_, states_;
  ValueId scalar_ = kNoValue;
};

TEST(Memory, TheContractHoldsForRandomGraphs) {
  int planned = 0, in_place = 0, straight = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    const Graph graph = RandomGraph(seed).make();
    try {
      const Planned p(graph, seed % 3 == 0 ? 100 : 0);
      ++planned;
      ASSERT_EQ(p.fault(), "") << "seed " << seed << "\n" << print(graph);
      straight += graph.updates.size() > p.plan.copies.size();
      for (const Node& node : graph.nodes) {
        if (node.op->memory == OpRecord::Memory::kShared) continue;
        in_place += p.plan.values[node.inputs[0]].space == Space::kArena &&
                    p.plan.values[node.inputs[0]].offset == p.plan.values[node.outputs[0]].offset;
      }
    } catch (const Error&) {  // an old state as an output or as another state's value
    }
  }
  EXPECT_GT(planned, 2000);
  EXPECT_GT(in_place, 1000) << "the graphs must exercise what they are here to check";
  EXPECT_GT(straight, 100);
}

}  // namespace
}  // namespace trireme
