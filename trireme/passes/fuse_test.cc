// Text in, fuse, text out: each pattern once, and once for each reason not to fuse.
#include "trireme/passes/fuse.h"

#include <gtest/gtest.h>

#include "trireme/ir/text.h"
#include "trireme/ir/verify.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

const std::string kInputs =
    "input %x: f32[2,4]\n"
    "input %w: f32[4,8]\n"
    "input %b: f32[8]\n"
    "input %r: f32[2,8]\n"
    "input %rng: i64[2]\n";
const std::string kDrop = " {rate=0.1, stream=7}\n";

// The statements after the inputs.
std::string fused(const std::string& statements) {
  const Graph result = fuse(parse_graph(kInputs + statements, ops()), ops());
  verify(result);
  const std::string text = print(result);
  return text.substr(kInputs.size());
}
void expect_unchanged(const std::string& statements) {
  EXPECT_EQ(fused(statements), statements);
}

TEST(Fuse, BiasIntoMatmul) {
  EXPECT_EQ(fused("%m: f32[2,8] = matmul(%x, %w)\n"
                  "%s: f32[2,8] = add(%m, %b)\n"
                  "output y = %s\n"),
            "%s: f32[2,8] = matmul(%x, %w, %b) {epilogue=\"bias\"}\n"
            "output y = %s\n");
}

TEST(Fuse, BiasAndGeluIntoMatmulWhichStillMakesTheSum) {
  EXPECT_EQ(fused("%m: f32[2,8] = matmul(%x, %w)\n"
                  "%s: f32[2,8] = add(%m, %b)\n"
                  "%g: f32[2,8] = gelu(%s)\n"
                  "%d: f32[2,8] = gelu_grad(%g, %s)\n"
                  "output y = %d\n"),
            "%g: f32[2,8], %s: f32[2,8] = matmul(%x, %w, %b) {epilogue=\"bias_gelu\"}\n"
            "%d: f32[2,8] = gelu_grad(%g, %s)\n"
            "output y = %d\n");
}

TEST(Fuse, ResidualOnEitherSide) {
  EXPECT_EQ(fused("%m: f32[2,8] = matmul(%x, %w)\n"
                  "%s: f32[2,8] = add(%r, %m)\n"
                  "output y = %s\n"),
            "%s: f32[2,8] = matmul(%x, %w, %r) {epilogue=\"residual\"}\n"
            "output y = %s\n");
  EXPECT_EQ(fused("%m: f32[2,8] = matmul(%x, %w)\n"
                  "%a: f32[2,8] = add(%m, %b)\n"
                  "%s: f32[2,8] = add(%a, %r)\n"
                  "output y = %s\n"),
            "%s: f32[2,8] = matmul(%x, %w, %b, %r) {epilogue=\"bias_residual\"}\n"
            "output y = %s\n");
}

TEST(Fuse, ASumOfTwoProductsTakesOneAsTheResidual) {
  EXPECT_EQ(fused("%m: f32[2,8] = matmul(%x, %w)\n"
                  "%n: f32[2,8] = matmul(%x, %w)\n"
                  "%s: f32[2,8] = add(%m, %n)\n"
                  "output y = %s\n"),
            "%m: f32[2,8] = matmul(%x, %w)\n"
            "%s: f32[2,8] = matmul(%x, %w, %m) {epilogue=\"residual\"}\n"
            "output y = %s\n");
}

TEST(Fuse, SumIntoNormWhichStillMakesTheSum) {
  EXPECT_EQ(fused("%s: f32[2,8] = add(%r, %r)\n"
                  "%y: f32[2,8], %k: f32[2] = rms_norm(%s, %b) {eps=1e-05}\n"
                  "output y = %y\noutput s = %s\n"),
            "%s: f32[2,8], %y: f32[2,8], %k: f32[2] = add_rms_norm(%r, %r, %b) {eps=1e-05}\n"
            "output y = %y\noutput s = %s\n");
  EXPECT_EQ(
      fused("%s: f32[2,8] = add(%r, %r)\n"
            "%y: f32[2,8], %m: f32[2], %k: f32[2] = layer_norm(%s, %b, %b) {eps=1e-05}\n"
            "output y = %y\n"),
      "%s: f32[2,8], %y: f32[2,8], %m: f32[2], %k: f32[2] = add_layer_norm(%r, %r, %b, %b) {eps=1e-05}\n"
      "output y = %y\n");
}

TEST(Fuse, DropoutIntoTheSumOnEitherSide) {
  EXPECT_EQ(fused("%n: f32[2,8] = neg(%r)\n"
                  "%d: f32[2,8] = dropout(%n, %rng)" +
                  kDrop +
                  "%s: f32[2,8] = add(%d, %r)\n"
                  "output y = %s\n"),
            "%n: f32[2,8] = neg(%r)\n"
            "%s: f32[2,8] = dropout_add(%n, %rng, %r)" +
                kDrop + "output y = %s\n");
}

TEST(Fuse, BiasAndDropoutIntoTheSum) {
  EXPECT_EQ(fused("%n: f32[2,8] = neg(%r)\n"
                  "%a: f32[2,8] = add(%n, %b)\n"
                  "%d: f32[2,8] = dropout(%a, %rng)" +
                  kDrop +
                  "%s: f32[2,8] = add(%r, %d)\n"
                  "output y = %s\n"),
            "%n: f32[2,8] = neg(%r)\n"
            "%s: f32[2,8] = dropout_add(%n, %rng, %r, %b)" +
                kDrop + "output y = %s\n");
}

// The bias is in the product by then; and the norm takes the sum as it is.
TEST(Fuse, DropoutBetweenAProductAndANorm) {
  EXPECT_EQ(fused("%m: f32[2,8] = matmul(%x, %w)\n"
                  "%a: f32[2,8] = add(%m, %b)\n"
                  "%d: f32[2,8] = dropout(%a, %rng)" +
                  kDrop +
                  "%s: f32[2,8] = add(%r, %d)\n"
                  "%y: f32[2,8], %k: f32[2] = rms_norm(%s, %b) {eps=1e-05}\n"
                  "output y = %y\n"),
            "%a: f32[2,8] = matmul(%x, %w, %b) {epilogue=\"bias\"}\n"
            "%s: f32[2,8] = dropout_add(%a, %rng, %r)" +
                kDrop +
                "%y: f32[2,8], %k: f32[2] = rms_norm(%s, %b) {eps=1e-05}\n"
                "output y = %y\n");
}

TEST(Fuse, NotDropoutThatIsReadElsewhereNorABiasedSumThatIs) {
  expect_unchanged("%d: f32[2,8] = dropout(%r, %rng)" + kDrop +
                   "%s: f32[2,8] = add(%r, %d)\n"
                   "output y = %s\noutput d = %d\n");
  expect_unchanged("%d: f32[2,8] = dropout(%r, %rng)" + kDrop +
                   "%s: f32[2,8] = add(%d, %d)\n"
                   "output y = %s\n");
  // The sum with the bias is the residual too, or an output.
  for (const std::string_view also : {"%a", "%r"}) {
    const std::string residual(also),
        rest = "output y = %s\n" + std::string(also == "%r" ? "output a = %a\n" : "");
    EXPECT_EQ(fused("%a: f32[2,8] = add(%r, %b)\n"
                    "%d: f32[2,8] = dropout(%a, %rng)" +
                    kDrop + "%s: f32[2,8] = add(" + residual + ", %d)\n" + rest),
              "%a: f32[2,8] = add(%r, %b)\n"
              "%s: f32[2,8] = dropout_add(%a, %rng, " +
                  residual + ")" + kDrop + rest);
  }
}

TEST(Fuse, NotWhenTheProductItselfIsAnOutput) {
  expect_unchanged(
      "%m: f32[2,8] = matmul(%x, %w)\n"
      "%s: f32[2,8] = add(%m, %b)\n"
      "output y = %s\noutput m = %m\n");
}

TEST(Fuse, NotAResidualThatIsMadeBehindTheProduct) {
  expect_unchanged(
      "%m: f32[2,8] = matmul(%x, %w)\n"
      "%late: f32[2,8] = relu(%r)\n"
      "%s: f32[2,8] = add(%m, %late)\n"
      "output y = %s\n");
}

TEST(Fuse, NotWhenTheProductHasAnotherReader) {
  expect_unchanged(
      "%m: f32[2,8] = matmul(%x, %w)\n"
      "%n: f32[2,8] = neg(%m)\n"
      "%s: f32[2,8] = add(%m, %r)\n"
      "output y = %s\noutput n = %n\n");
}

TEST(Fuse, NotWhenTheSumIsReadBeforeTheLaterNode) {
  expect_unchanged(
      "%s: f32[2,8] = add(%r, %r)\n"
      "%n: f32[2,8] = neg(%s)\n"
      "%y: f32[2,8], %k: f32[2] = rms_norm(%s, %b) {eps=1e-05}\n"
      "output y = %y\noutput n = %n\n");
}

TEST(Fuse, NotASumThatIsBroadcast) {
  expect_unchanged(
      "%s: f32[2,8] = add(%r, %b)\n"
      "%y: f32[2,8], %k: f32[2] = rms_norm(%s, %b) {eps=1e-05}\n"
      "output y = %y\n");
}

TEST(Fuse, NotAProductAddedToItself) {
  expect_unchanged(
      "%m: f32[2,8] = matmul(%x, %w)\n"
      "%s: f32[2,8] = add(%m, %m)\n"
      "output y = %s\n");
}

TEST(Fuse, NotANormThatReadsTheSumAsItsGainToo) {
  expect_unchanged(
      "%s: f32[8] = add(%b, %b)\n"
      "%y: f32[8], %k: f32[] = rms_norm(%s, %s) {eps=1e-05}\n"
      "output y = %y\n");
}

}  // namespace
}  // namespace trireme
