// The text form: what is printed parses back to the same text, and what is wrong is refused with its line.
#include "trireme/ir/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "trireme/base/error.h"
#include "trireme/ir/builder.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

void expect_same_text(const Graph& graph) {
  const std::string text = print(graph);
  EXPECT_EQ(print(parse_graph(text, ops())), text);
}

TEST(GraphText, TheExampleInTheHeaderParses) {
  const std::string text =
      "graph mlp\n"
      "state %w: f32[4,8] {init=\"normal\", std=0.02}\n"
      "input %x: f32[2,4]\n"
      "%h: f32[2,8] = matmul(%x, %w)\n"
      "%y: f32[2,8] = relu(%h)\n"
      "%w2: f32[4,8] = affine(%w) {scale=0.5}\n"
      "update %w <- %w2\n"
      "output loss = %y\n";
  EXPECT_EQ(print(parse_graph(text, ops())), text);
}

TEST(GraphText, EveryKindOfAttributeComesBack) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const AttrValue& value : std::initializer_list<AttrValue>{
           int64_t{0}, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), 0.1, 3.0,
           1e300, 5e-324, -0.0, infinity, -infinity, std::string(), std::string("a \"b\" \\n \n # {}"),
           std::vector<int64_t>{}, std::vector<int64_t>{-1, 2, 3}}) {
    Builder b(ops(), "g");
    b.state("w", {DType::f32, {2}}, Role::kNone, {{"first", int64_t{1}}, {"value", value}, {"last", "x"}});
    const Graph graph = b.take();
    expect_same_text(graph);
    const Graph parsed = parse_graph(print(graph), ops());
    EXPECT_EQ(parsed.values[0].attrs, graph.values[0].attrs) << print(graph);
  }
}

TEST(GraphText, NotANumberIsPrintedToo) {
  Builder b(ops(), "g");
  b.state("w", {DType::f32, {}}, Role::kNone, {{"value", std::nan("")}});
  expect_same_text(b.graph());
}

TEST(GraphText, SeveralResultsScalarsAndEveryFormat) {
  Builder b(ops(), "loss");
  const ValueId logits = b.input("a/b.c-d~e_f", {DType::bf16, {2, 3, 7}});
  const ValueId targets = b.input("targets", {DType::i32, {2, 3}});
  b.input("rng", {DType::i64, {2}});
  b.input("mask", {DType::u8, {0}});
  const std::vector<ValueId> loss =
      b.node("cross_entropy", {logits, targets}, {{"label_smoothing", 0.1}, {"ignore_index", int64_t{-1}}});
  b.op("cast", {loss[0]}, {{"to", "f64"}});
  b.op("split", {logits}, {{"dim", int64_t{1}}, {"sizes", std::vector<int64_t>{1, 2}}});
  b.output("loss", loss[0]);
  b.output("count", loss[1]);
  expect_same_text(b.graph());
}

TEST(GraphText, AGraphMayHaveNoName) {
  expect_same_text(Builder(ops(), "").take());
}

TEST(GraphText, CommentsAndBlankLinesAreSkipped) {
  const Graph graph = parse_graph("# first\n\n  # second\n input %x: f32[2] # third\r\n", ops());
  EXPECT_EQ(print(graph), "input %x: f32[2]\n");
}

struct Refusal {
  const char* text;
  const char* message;
};

TEST(GraphText, RefusesWithTheLineAndTheReason) {
  for (const Refusal& one : {
           Refusal{"input x: f32[2]", "a value (%name) expected at 'x: f32[2]'"},
           Refusal{"input %x: float[2]", "'float' is no number format"},
           Refusal{"input %x: f32[-1]", "extent -1 is negative"},
           Refusal{"input %x: f32[1,1,1,1,1,1,1,1,1]", "at most 8 dims"},
           Refusal{"input %x: f32[281474976710656,2]", "more than 2^48 elements"},
           Refusal{"input %x: f32[0,281474976710656,2]", "more than 2^48 elements"},
           Refusal{"input %x: f32[99999999999999999999]", "an integer expected at '99999"},
           Refusal{"input %x: f32[2] rest", "'rest' is no role"},
           Refusal{"input %x: f32[2] {a=1} rest", "text left over"},
           Refusal{"output loss = %i some", "'some' is no role of an output"},
           Refusal{"state %w: f32[2] {a=1, a=2}", "attribute 'a' is given twice"},
           Refusal{"state %w: f32[2] {a=\"x}", "not closed"},
           Refusal{"state %w: f32[2] {a=x}", "'x' is no attribute value"},
           Refusal{"state %w: f32[2] {a=1", "',' expected"},
           Refusal{"%y: f32[2] = relu(%x)", "%x is read before it is made"},
           Refusal{"%y: f32[2] = relux(%i)", "did you mean 'relu'?"},
           Refusal{"%y: f32[3] = relu(%i)", "[relu] makes f32[2], but %y is said to be f32[3]"},
           Refusal{"%y: f32[2], %z: f32[2] = relu(%i)", "makes 1 results, but 2 are named"},
           Refusal{"input %i: f32[2]", "%i is made twice"},
           Refusal{"update %i <- %none", "%none is read before it is made"},
           Refusal{"output loss = %none", "%none is read before it is made"},
           Refusal{"%y: f32[2] = relu(%i", "',' expected"},
       }) {
    const std::string text = "graph g\ninput %i: f32[2]\n" + std::string(one.text) + "\n";
    EXPECT_THAT([&] { parse_graph(text, ops()); },
                ThrowsMessage<Error>(AllOf(StartsWith("line 3: "), HasSubstr(one.message))))
        << one.text;
  }
}

TEST(GraphText, RefusesWhatOnlyTheWholeGraphShows) {
  EXPECT_THAT([] { parse_graph("input %x: f32[2]\nupdate %x <- %x\n", ops()); },
              ThrowsMessage<Error>(HasSubstr("%x is updated but is no state")));
}

}  // namespace
}  // namespace trireme
