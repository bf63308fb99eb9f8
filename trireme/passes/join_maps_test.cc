#include "trireme/passes/join_maps.h"

#include <gtest/gtest.h>

#include "trireme/ir/text.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

std::string joined_text(
    const std::string& text, const GainQuery& gains = [](const Graph&, const Node&) { return true; }) {
  return print(join_maps(parse_graph(text, ops()), ops(), gains));
}

const std::string kProductInputs = "graph g\ninput %x: bf16[8,6]\ninput %w: bf16[6,4]\ninput %u: bf16[6,4]\n";
const std::string kProducts =
    "%m/a: bf16[8,4] = matmul(%x, %w)\n"
    "%m/b: bf16[8,4] = matmul(%x, %u)\n";

TEST(JoinMaps, AChainBecomesOne) {
  EXPECT_EQ(joined_text(kProductInputs + kProducts +
                        "%m/s: bf16[8,4] = silu(%m/a)\n%m/p: bf16[8,4] = mul(%m/s, %m/b)\noutput p = %m/p\n"),
            kProductInputs + kProducts +
                "%m/p: bf16[8,4] = map(%m/a, %m/b) {code=\"silu(0); mul(2, 1)\", results=[3]}\n"
                "output p = %m/p\n");
}

TEST(JoinMaps, ABiasAndAScalarRepeat) {
  const std::string inputs = "graph g\ninput %x: f32[8,4]\ninput %c: f32[4]\ninput %s: f32[]\n";
  EXPECT_EQ(joined_text(inputs + "%a: f32[8,4] = add(%x, %c)\n%b: f32[8,4] = mul(%a, %s)\n"
                                 "%d: f32[8,4] = affine(%b) {scale=0.5, shift=2}\noutput d = %d\n"),
            inputs +
                "%d: f32[8,4] = map(%x, %c, %s) {code=\"add(0, 1); mul(3, 2); affine(4) scale=0.5 shift=2\", "
                "results=[5]}\noutput d = %d\n");
}

// A loss whose gradient is d: backward needs silu(a), b and a, and the product's own gradient needs p. None
// of silu(a) and p is kept from the forward part, since the map of the gradients has all that they are made
// of.
TEST(JoinMaps, TheBackwardPartMakesAgainWhatItCan) {
  const std::string inputs = kProductInputs + "input %v: bf16[4,6]\n";
  const std::string forward = kProducts +
                              "%m/s: bf16[8,4] = silu(%m/a)\n"
                              "%m/p: bf16[8,4] = mul(%m/s, %m/b)\n"
                              "%m/y: bf16[8,6] = matmul(%m/p, %v)\n"
                              "%l/d: bf16[8,6] = relu(%m/y)\n";
  const std::string backward =
      "%m/grad/dp: bf16[8,4] = matmul(%l/d, %v) {transpose_b=1}\n"
      "%m/grad/dv: bf16[4,6] = matmul(%m/p, %l/d) {transpose_a=1}\n"
      "%m/grad/ds: bf16[8,4] = mul(%m/grad/dp, %m/b)\n"
      "%m/grad/db: bf16[8,4] = mul(%m/grad/dp, %m/s)\n"
      "%m/grad/du: bf16[6,4] = matmul(%x, %m/grad/db) {transpose_a=1}\n"
      "%m/grad/da: bf16[8,4] = silu_grad(%m/grad/ds, %m/a)\n"
      "%m/grad/dw: bf16[6,4] = matmul(%x, %m/grad/da) {transpose_a=1}\n";
  const std::string outputs = "output dv = %m/grad/dv\noutput du = %m/grad/du\noutput dw = %m/grad/dw\n";
  EXPECT_EQ(
      joined_text(inputs + forward + backward + outputs),
      inputs + kProducts +
          "%m/p: bf16[8,4] = map(%m/a, %m/b) {code=\"silu(0); mul(2, 1)\", results=[3]}\n"
          "%m/y: bf16[8,6] = matmul(%m/p, %v)\n"
          "%l/d: bf16[8,6] = relu(%m/y)\n"
          "%m/grad/dp: bf16[8,4] = matmul(%l/d, %v) {transpose_b=1}\n"
          "%m/grad/db: bf16[8,4], %m/grad/da: bf16[8,4], %m/again/p: bf16[8,4] = map(%m/a, %m/b, %m/grad/dp) "
          "{code=\"silu(0); mul(3, 1); mul(2, 1); mul(2, 3); silu_grad(5, 0)\", results=[6,7,4]}\n"
          "%m/grad/dv: bf16[4,6] = matmul(%m/again/p, %l/d) {transpose_a=1}\n"
          "%m/grad/du: bf16[6,4] = matmul(%x, %m/grad/db) {transpose_a=1}\n"
          "%m/grad/dw: bf16[6,4] = matmul(%x, %m/grad/da) {transpose_a=1}\n" +
          outputs);
}

// Between the two stands a product that reads the first and makes what the second reads.
TEST(JoinMaps, WhatAnotherOpStandsBetweenStays) {
  const std::string text = kProductInputs +
                           "%a: bf16[8,6] = relu(%x)\n%b: bf16[8,4] = matmul(%a, %w)\n"
                           "%c: bf16[8,6] = matmul(%b, %w) {transpose_b=1}\n%d: bf16[8,6] = mul(%c, %a)\n"
                           "output d = %d\n";
  EXPECT_EQ(joined_text(text), text);
}

TEST(JoinMaps, AnOutputIsStillMade) {
  EXPECT_EQ(joined_text(kProductInputs +
                        "%a: bf16[8,6] = relu(%x)\n%b: bf16[8,6] = neg(%a)\noutput a = %a\noutput b = %b\n"),
            kProductInputs +
                "%a: bf16[8,6], %b: bf16[8,6] = map(%x) {code=\"relu(0); neg(1)\", results=[1,2]}\n"
                "output a = %a\noutput b = %b\n");
}

TEST(JoinMaps, OtherFormatsReductionsAndDrawsAreNotElementWise) {
  const std::string text =
      "graph g\ninput %x: bf16[8,6]\n"
      "%c: f32[8,6] = cast(%x) {to=\"f32\"}\n%s: f32[8,6] = softmax(%c)\n%t: f32[6,8] = transpose(%s) "
      "{perm=[1,0]}\n"
      "output t = %t\n";
  EXPECT_EQ(joined_text(text), text);
}

TEST(JoinMaps, NothingIsDoneWhereNothingIsGained) {
  const std::string text =
      kProductInputs + "%a: bf16[8,6] = relu(%x)\n%b: bf16[8,6] = neg(%a)\noutput b = %b\n";
  EXPECT_EQ(joined_text(text, [](const Graph&, const Node&) { return false; }), text);
}

}  // namespace
}  // namespace trireme
