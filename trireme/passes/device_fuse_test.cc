#include "trireme/passes/device_fuse.h"

#include <gtest/gtest.h>

#include "trireme/ir/text.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

const GainQuery kTake = [](const Graph&, const Node&) { return true; };
const GainQuery kLeave = [](const Graph&, const Node&) { return false; };

std::string fused_text(const std::string& text, const GainQuery& gains = kTake) {
  return print(fused_for_device(parse_graph(text, ops()), ops(), gains));
}

const std::string kAttentionInputs =
    "graph g\n"
    "input %x: bf16[2,8,24]\n"
    "input %d: bf16[2,8,2,1,4]\n";
const std::string kForward =
    "%q: bf16[2,8,8], %k: bf16[2,8,8], %v: bf16[2,8,8] = split(%x) {dim=2, sizes=[8,8,8]}\n"
    "%q5: bf16[2,8,2,1,4] = reshape(%q) {shape=[2,8,2,1,4]}\n"
    "%k4: bf16[2,8,2,4] = reshape(%k) {shape=[2,8,2,4]}\n"
    "%v4: bf16[2,8,2,4] = reshape(%v) {shape=[2,8,2,4]}\n"
    "%o: bf16[2,8,2,1,4], %l: f32[2,2,1,8] = attention(%q5, %k4, %v4) {causal=1, scale=0.5}\n";
const std::string kBackward =
    "%dq: bf16[2,8,2,1,4], %dk: bf16[2,8,2,4], %dv: bf16[2,8,2,4] = attention_grad(%d, %q5, %k4, %v4, %o, "
    "%l) {causal=1, scale=0.5}\n"
    "%rv: bf16[2,8,8] = reshape(%dv) {shape=[2,8,8]}\n"
    "%rk: bf16[2,8,8] = reshape(%dk) {shape=[2,8,8]}\n"
    "%rq: bf16[2,8,8] = reshape(%dq) {shape=[2,8,8]}\n"
    "%dx: bf16[2,8,24] = concat(%rq, %rk, %rv) {dim=2}\n";

TEST(DeviceFuse, AttentionAndItsGradientTakeQKAndVAsOne) {
  EXPECT_EQ(
      fused_text(kAttentionInputs + kForward + kBackward + "output o = %o\noutput dx = %dx\n"),
      kAttentionInputs +
          "%o: bf16[2,8,2,1,4], %l: f32[2,2,1,8] = attention_packed(%x) {causal=1, scale=0.5, width=4}\n"
          "%dx: bf16[2,8,24] = attention_packed_grad(%d, %x, %o, %l) {causal=1, scale=0.5, width=4}\n"
          "output o = %o\noutput dx = %dx\n");
}

TEST(DeviceFuse, WhatSomebodyElseReadsStays) {
  for (const char* more :
       {"output q = %q\n", "output k4 = %k4\n", "output dv = %dv\n", "output rk = %rk\n"}) {
    const std::string text =
        kAttentionInputs + kForward + kBackward + "output o = %o\noutput dx = %dx\n" + std::string(more);
    EXPECT_EQ(fused_text(text), text) << more;
  }
}

TEST(DeviceFuse, PartsInAnotherOrderStay) {
  std::string text = kAttentionInputs + kForward + kBackward + "output o = %o\noutput dx = %dx\n";
  text.replace(text.find("concat(%rq, %rk"), 15, "concat(%rk, %rq");
  EXPECT_EQ(fused_text(text), text);
}

TEST(DeviceFuse, ALossThatIsWantedSoonerStays) {
  const std::string head = "graph g\ninput %x: f32[3,7]\ninput %t: i32[3]\ninput %s: f32[]\n",
                    forward = "%l: f32[], %n: f32[], %e: f32[3] = cross_entropy(%x, %t)\n",
                    tail = "output l = %l\noutput d = %d\n";
  const std::string gradient = "%d: f32[3,7] = cross_entropy_grad(%s, %x, %t, %e)\n";
  EXPECT_EQ(fused_text(head + forward + gradient + tail),
            head + "%d: f32[3,7], %l: f32[], %n: f32[] = cross_entropy_with_grad(%x, %t, %s)\n" + tail);
  const std::string sooner = head + forward + "%s2: f32[] = mul(%s, %l)\n" +
                             "%d: f32[3,7] = cross_entropy_grad(%s2, %x, %t, %e)\n" + tail;
  EXPECT_EQ(fused_text(sooner), sooner);
}

// A weight that is kept in the format of its gradient is written by the update of its master.
TEST(DeviceFuse, AnUpdateWritesTheRoundedWeight) {
  const auto text = [](const std::string& nodes, const std::string& format) {
    return "graph g\nstate %w: f32[4]\nstate %h: bf16[4]\nstate %g: " + format +
           "[4]\nstate %m: f32[4]\nstate %v: f32[4]\ninput %s: f32[]\n" + nodes +
           "update %w <- %a\nupdate %m <- %b\nupdate %v <- %c\nupdate %h <- %r\n";
  };
  const std::string attrs = "{beta1=0.9, beta2=0.95, eps=1e-08, weight_decay=0.1}\n";
  const std::string apart = "%a: f32[4], %b: f32[4], %c: f32[4] = adam(%w, %g, %m, %v, %s, %s, %s) " + attrs +
                            "%r: bf16[4] = cast(%a) {to=\"bf16\"}\n";
  EXPECT_EQ(
      fused_text(text(apart, "bf16")),
      text("%a: f32[4], %b: f32[4], %c: f32[4], %r: bf16[4] = adam_rounded(%w, %g, %m, %v, %s, %s, %s) " +
               attrs,
           "bf16"));
  EXPECT_EQ(fused_text(text(apart, "f32")), text(apart, "f32"));  // its gradient is not
}

TEST(DeviceFuse, NothingIsDoneWhereNothingIsGained) {
  const std::string text = kAttentionInputs + kForward + kBackward + "output o = %o\noutput dx = %dx\n";
  EXPECT_EQ(fused_text(text, kLeave), text);
}

}  // namespace
}  // namespace trireme
