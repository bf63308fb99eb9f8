// Which nodes differentiation adds; that their values are right, tests/ops checks for every op.
#include "trireme/passes/autodiff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/base/error.h"
#include "trireme/ir/text.h"
#include "trireme/ir/verify.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Differentiated {
  Graph graph;
  std::vector<ValueId> gradients;
  std::vector<std::string> added;    // ops of the nodes that came in
  std::vector<std::string> results;  // their first results
};

Differentiated differentiated(std::string_view text, const std::vector<std::string>& wanted) {
  Graph forward = parse_graph(text, ops());
  const int before = static_cast<int>(forward.nodes.size());
  std::vector<ValueId> ids;
  for (const std::string& name : wanted) ids.push_back(forward.find(name));
  const ValueId loss = forward.find("loss");
  Builder b(ops(), std::move(forward));
  const ValueId seed = b.input("seed", {DType::f32, {}});
  Differentiated result;
  const Backward backward = differentiate(b, loss, seed, ids);
  result.gradients = backward.gradients;
  result.graph = b.take();
  verify(result.graph);
  const auto name = [&](int n) { return result.graph.values[result.graph.nodes[n].outputs[0]].name; };
  for (int n = before; n < std::ssize(result.graph.nodes); ++n) {
    result.added.emplace_back(result.graph.nodes[n].op->name);
    result.results.push_back(name(n));
  }
  return result;
}

TEST(Autodiff, AddsOneBackwardNodePerUse) {
  const Differentiated d = differentiated(
      "state %w: f32[4,8]\n"
      "input %x: f32[2,4]\n"
      "%h: f32[2,8] = matmul(%x, %w)\n"
      "%y: f32[2,8] = relu(%h)\n"
      "%loss: f32[] = sum(%y) {dims=[0,1]}\n",
      {"w"});
  EXPECT_THAT(d.added, ElementsAre("broadcast", "relu_grad", "matmul"));
  EXPECT_EQ(d.graph.type(d.gradients[0]), (TensorType{DType::f32, {4, 8}}));
}

TEST(Autodiff, ComputesNothingForWhatIsNotWanted) {
  const Differentiated d = differentiated(
      "state %w: f32[4,4]\n"
      "state %frozen: f32[4,4]\n"
      "input %x: f32[2,4]\n"
      "%h: f32[2,4] = matmul(%x, %frozen)\n"
      "%a: f32[2,4] = gelu(%h)\n"
      "%y: f32[2,4] = matmul(%a, %w)\n"
      "%loss: f32[] = sum(%y) {dims=[0,1]}\n",
      {"w"});
  EXPECT_THAT(d.added, ElementsAre("broadcast", "matmul")) << "neither gelu_grad nor a gradient of frozen";
}

TEST(Autodiff, AddsUpTheGradientsOfSeveralUses) {
  const Differentiated d = differentiated(
      "state %w: f32[3]\n"
      "%a: f32[3] = exp(%w)\n"
      "%b: f32[3] = mul(%a, %w)\n"
      "%loss: f32[] = sum(%b) {dims=[0]}\n",
      {"w"});
  EXPECT_THAT(d.added, ElementsAre("broadcast", "mul", "mul", "mul", "add"));
}

TEST(Autodiff, NamesNodesByWhereTheyCameFrom) {
  const Differentiated d = differentiated(
      "state %w: f32[4,4]\n"
      "input %x: f32[2,4]\n"
      "%h.0/matmul: f32[2,4] = matmul(%x, %w)\n"
      "%h.1/mlp/matmul: f32[2,4] = matmul(%h.0/matmul, %w)\n"
      "%loss: f32[] = sum(%h.1/mlp/matmul) {dims=[0,1]}\n",
      {"w"});
  EXPECT_THAT(d.results, ElementsAre("grad/broadcast", "h.1/mlp/grad/matmul", "h.1/mlp/grad/matmul~2",
                                     "h.0/grad/matmul", "h.0/grad/add"));
}

TEST(Autodiff, AValueWithoutInfluenceHasNoGradient) {
  const Differentiated d = differentiated(
      "state %w: f32[3]\n"
      "state %unused: f32[3]\n"
      "%loss: f32[] = sum_squares(%w)\n",
      {"unused", "w"});
  EXPECT_EQ(d.gradients[0], kNoValue);
  EXPECT_NE(d.gradients[1], kNoValue);
}

TEST(Autodiff, TheLossItselfHasTheSeedAsItsGradient) {
  const Differentiated d = differentiated("state %w: f32[3]\n%loss: f32[] = sum_squares(%w)\n", {"loss"});
  EXPECT_EQ(d.gradients[0], d.graph.find("seed"));
  EXPECT_TRUE(d.added.empty());
}

TEST(Autodiff, PartsThatTheLossLeavesOutCountAsZero) {
  const Differentiated d = differentiated(
      "state %w: f32[6]\n"
      "%a: f32[2], %b: f32[4] = split(%w) {dim=0, sizes=[2,4]}\n"
      "%loss: f32[] = sum(%b) {dims=[0]}\n",
      {"w"});
  EXPECT_THAT(d.added, ElementsAre("broadcast", "affine", "concat"));
}

TEST(Autodiff, RefusesALossThatIsNoScalar) {
  EXPECT_THAT([] { differentiated("state %w: f32[3]\n%loss: f32[3] = exp(%w)\n", {"w"}); },
              ThrowsMessage<Error>(AllOf(HasSubstr("f32[3]"), HasSubstr("only a scalar"))));
}

TEST(Autodiff, RefusesAnOpWithoutGradientWithItsReason) {
  const char* text =
      "state %w: f32[3]\n"
      "input %dy: f32[3]\n"
      "%a: f32[3] = relu_grad(%dy, %w)\n"
      "%loss: f32[] = sum(%a) {dims=[0]}\n";
  EXPECT_THAT([&] { differentiated(text, {"w"}); },
              ThrowsMessage<Error>(AllOf(HasSubstr("[relu_grad]"), HasSubstr("second derivatives"))));
  EXPECT_NO_THROW(differentiated(text, {})) << "nothing is wanted through it";
}

TEST(Autodiff, RefusesALossThroughAStatistic) {
  EXPECT_THAT(
      [] {
        differentiated(
            "state %w: f32[2,3]\n"
            "input %g: f32[3]\n"
            "%y: f32[2,3], %rstd: f32[2] = rms_norm(%w, %g) {eps=1e-05}\n"
            "%loss: f32[] = sum(%rstd) {dims=[0]}\n",
            {"w"});
      },
      ThrowsMessage<Error>(HasSubstr("[rms_norm] the loss depends on result 1")));
}

}  // namespace
}  // namespace trireme
