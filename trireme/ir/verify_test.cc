// Each way in which a graph can be broken is rejected, and the message says where.
#include "trireme/ir/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/base/error.h"
#include "trireme/ir/text.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class Verify : public ::testing::Test {
 protected:
  Graph graph_ = parse_graph(
      "graph g\n"
      "state %w: f32[4]\n"
      "input %x: f32[4]\n"
      "%a: f32[4] = add(%x, %w)\n"
      "%b: f32[4] = neg(%a)\n"
      "update %w <- %b\n"
      "output y = %a\n",
      ops());
  const ValueId w_ = graph_.find("w"), x_ = graph_.find("x"), a_ = graph_.find("a"), b_ = graph_.find("b");

  void expect_refused(const std::string& what, const std::string& where = "graph 'g'") {
    EXPECT_THAT([&] { verify(graph_); }, ThrowsMessage<Error>(AllOf(HasSubstr(where), HasSubstr(what))));
  }
};

TEST_F(Verify, AcceptsAGoodGraph) {
  EXPECT_NO_THROW(verify(graph_));
}
TEST_F(Verify, TwoValuesOfOneName) {
  graph_.values[b_].name = "a";
  expect_refused("two values are called %a");
}
TEST_F(Verify, AMissingOp) {
  graph_.nodes[0].op = nullptr;
  expect_refused("the op is missing", "node 0 (no op)");
}
TEST_F(Verify, AReadOfNothing) {
  graph_.nodes[0].inputs[0] = 99;
  expect_refused("reads value 99, which does not exist", "node 0 (add)");
  graph_.nodes[0].inputs[0] = kNoValue;
  expect_refused("reads value -1", "node 0 (add)");
}
TEST_F(Verify, AReadBeforeTheValueIsMade) {
  graph_.nodes[0].inputs[0] = b_;
  expect_refused("reads %b before it is made", "node 0 (add)");
}
TEST_F(Verify, InputsThatTheOpRefuses) {
  graph_.values[w_].type.shape = {3};
  expect_refused("dim 0 of b is 3", "node 0 (add)");
}
TEST_F(Verify, AWrongNumberOfResults) {
  graph_.nodes[0].outputs.push_back(b_);
  expect_refused("has 2 results, but the op makes 1", "node 0 (add)");
}
TEST_F(Verify, AResultThatDoesNotExist) {
  graph_.nodes[1].outputs[0] = 99;
  expect_refused("makes value 99", "node 1 (neg)");
}
TEST_F(Verify, AValueMadeTwice) {
  graph_.nodes[1].outputs[0] = a_;
  expect_refused("makes %a a second time", "node 1 (neg)");
}
TEST_F(Verify, AValueThatNamesAnotherMaker) {
  graph_.values[b_].node = 0;
  expect_refused("%b does not name it as its maker", "node 1 (neg)");
}
TEST_F(Verify, AValueOfAnotherType) {
  graph_.values[b_].type.dtype = DType::f16;
  expect_refused("%b is f16[4], but the op makes f32[4]", "node 1 (neg)");
}
TEST_F(Verify, AResultThatNobodyMakes) {
  graph_.nodes.pop_back();
  expect_refused("no node makes %b");
}
TEST_F(Verify, AnUpdateOfNoState) {
  graph_.updates[0].state = x_;
  expect_refused("%x is updated but is no state");
}
TEST_F(Verify, AnUpdateOfOrByNothing) {
  graph_.updates[0].value = 99;
  expect_refused("an update names value 0 or 99, which does not exist");
  graph_.updates[0] = {-1, b_};
  expect_refused("an update names value -1");
}
TEST_F(Verify, AStateUpdatedTwice) {
  graph_.updates.push_back({w_, a_});
  expect_refused("%w is updated twice");
}
TEST_F(Verify, AnUpdateOfAnotherType) {
  graph_.values.push_back({"v", {DType::f32, {5}}, Value::Kind::kInput});
  graph_.updates[0].value = static_cast<ValueId>(graph_.values.size()) - 1;
  expect_refused("the state %w is f32[4] but its new value %v is f32[5]");
}
TEST_F(Verify, ARoleThatDoesNotFit) {
  graph_.values[w_].role = Role::kBatch;
  expect_refused("%w is a state, which can not have the role batch");
}
TEST_F(Verify, AnOutputOfNothing) {
  graph_.outputs[0].value = 99;
  expect_refused("output 'y' names no value");
}
TEST_F(Verify, TwoOutputsOfOneName) {
  graph_.outputs.push_back({"y", b_});
  expect_refused("two outputs are called 'y'");
}

}  // namespace
}  // namespace trireme
