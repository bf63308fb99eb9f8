#include "trireme/passes/channels_last.h"

#include <gtest/gtest.h>

#include "trireme/ir/text.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

const GainQuery kAlways = [](const Graph&, const Node&) { return true; };
const GainQuery kNever = [](const Graph&, const Node&) { return false; };

std::string turned_text(const std::string& text, const GainQuery& gains = kAlways) {
  return print(with_channels_last(parse_graph(text, ops()), ops(), gains));
}

const std::string kHead =
    "graph g\ninput %x: bf16[2,3,8,8]\nstate %w: bf16[16,3,3,3]\nstate %v: bf16[8,16,1,1]\n";
const std::string kConvs =
    "%a: bf16[2,16,8,8] = conv2d(%x, %w) {stride=[1,1], padding=[1,1], dilation=[1,1]}\n"
    "%b: bf16[2,16,8,8] = relu(%a)\n"
    "%c: bf16[2,8,8,8] = conv2d(%b, %v) {stride=[1,1], padding=[0,0], dilation=[1,1]}\n";

TEST(ChannelsLast, StaysFromOneConvolutionToTheNext) {
  EXPECT_EQ(turned_text(kHead + kConvs + "output c = %c\n"),
            kHead +
                "%x.channels_last: bf16[2,8,8,3] = transpose(%x) {perm=[0,2,3,1]}\n"
                "%w.channels_last: bf16[16,3,3,3] = transpose(%w) {perm=[0,2,3,1]}\n"
                "%a: bf16[2,8,8,16] = conv2d_nhwc(%x.channels_last, %w.channels_last) {stride=[1,1], "
                "padding=[1,1], dilation=[1,1]}\n"
                "%b: bf16[2,8,8,16] = relu(%a)\n"
                "%v.channels_last: bf16[8,1,1,16] = reshape(%v) {shape=[8,1,1,16]}\n"
                "%c: bf16[2,8,8,8] = conv2d_nhwc(%b, %v.channels_last) {stride=[1,1], padding=[0,0], "
                "dilation=[1,1]}\n"
                "%c.channels_first: bf16[2,8,8,8] = transpose(%c) {perm=[0,3,1,2]}\n"
                "output c = %c.channels_first\n");
}

// Dropout counts elements, so that it may not be turned; what follows it is turned again.
TEST(ChannelsLast, WhatIsNotDoneElementByElementLiesAsItDid) {
  const std::string text = turned_text(
      "graph g\ninput %x: bf16[2,3,8,8]\ninput %r: i64[2]\nstate %w: bf16[16,3,3,3]\n"
      "%a: bf16[2,16,8,8] = conv2d(%x, %w) {stride=[1,1], padding=[1,1], dilation=[1,1]}\n"
      "%b: bf16[2,16,8,8] = dropout(%a, %r) {rate=0.5, stream=1}\noutput b = %b\n");
  EXPECT_NE(text.find("%b: bf16[2,16,8,8] = dropout(%a.channels_first, %r)"), std::string::npos) << text;
}

TEST(ChannelsLast, AWeightsGradientLiesAsTheWeight) {
  const std::string text = turned_text(
      "graph g\ninput %d: bf16[2,16,8,8]\ninput %x: bf16[2,3,8,8]\n"
      "%a: bf16[16,3,3,3] = conv2d_grad_weight(%d, %x) {stride=[1,1], padding=[1,1], dilation=[1,1], "
      "kernel=[3,3]}\n"
      "%b: f32[16,3,3,3] = cast(%a) {to=\"f32\"}\noutput b = %b\n");
  EXPECT_NE(text.find("%b: f32[16,3,3,3] = cast(%a.channels_first)"), std::string::npos) << text;
}

// As many channels as rows and columns: the images' types are the same in both orders, the weight's are not.
TEST(ChannelsLast, CubesAreTurnedToo) {
  const std::string text = turned_text(
      "graph g\ninput %d: bf16[2,8,8,8]\ninput %x: bf16[2,8,8,8]\n"
      "%a: bf16[8,8,3,3] = conv2d_grad_weight(%d, %x) {stride=[1,1], padding=[1,1], dilation=[1,1], "
      "kernel=[3,3]}\n"
      "%b: f32[8,8,3,3] = cast(%a) {to=\"f32\"}\noutput b = %b\n");
  EXPECT_NE(text.find("%a: bf16[8,3,3,8] = conv2d_nhwc_grad_weight("), std::string::npos) << text;
  EXPECT_NE(text.find("%b: f32[8,8,3,3] = cast(%a.channels_first)"), std::string::npos) << text;
}

TEST(ChannelsLast, NormsAndPoolsFollowButDoNotBegin) {
  const std::string norm =
      "%y: bf16[2,16,8,8], %p: f32[1,16], %q: f32[1,16], %s: f32[16], %t: f32[16] = "
      "batch_norm(%a, %g, %h, %m, %n) {eps=1e-05}\n"
      "%z: bf16[2,16,4,4] = max_pool2d(%y) {kernel=[2,2], stride=[2,2], padding=[0,0]}\noutput z = %z\n";
  const std::string rest = "input %g: bf16[16]\ninput %h: bf16[16]\ninput %m: f32[16]\ninput %n: f32[16]\n";
  const std::string alone = "graph g\ninput %a: bf16[2,16,8,8]\n" + rest + norm;
  EXPECT_EQ(turned_text(alone), alone);
  const std::string behind =
      turned_text("graph g\ninput %x: bf16[2,3,8,8]\n" + rest +
                  "state %w: bf16[16,3,3,3]\n"
                  "%a: bf16[2,16,8,8] = conv2d(%x, %w) {stride=[1,1], padding=[1,1], dilation=[1,1]}\n" +
                  norm);
  EXPECT_NE(behind.find("= batch_norm_nhwc(%a, "), std::string::npos) << behind;
  EXPECT_NE(behind.find("= max_pool2d_nhwc(%y)"), std::string::npos) << behind;
}

// A bias spread over the pixels is turned, which is little to move, and the images stay as they lie; so does
// the gradient of the bias until it is small.
TEST(ChannelsLast, ABiasAndItsGradientFollow) {
  const std::string text =
      turned_text(kHead +
                  "state %h: bf16[16]\n"
                  "%a: bf16[2,16,8,8] = conv2d(%x, %w) {stride=[1,1], padding=[1,1], dilation=[1,1]}\n"
                  "%s: bf16[16,8,8] = broadcast(%h) {shape=[16,8,8], dims=[0]}\n"
                  "%b: bf16[2,16,8,8] = add(%a, %s)\n"
                  "%c: bf16[2,8,8,8] = conv2d(%b, %v) {stride=[1,1], padding=[0,0], dilation=[1,1]}\n"
                  "%d: bf16[16,8,8] = sum(%b) {dims=[0]}\n"
                  "%e: bf16[16] = sum(%d) {dims=[1,2]}\n"
                  "%f: bf16[2,16,8,8] = broadcast(%d) {shape=[2,16,8,8], dims=[1,2,3]}\n"
                  "output c = %c\noutput e = %e\noutput f = %f\n");
  const auto has = [&](const char* line) {
    EXPECT_NE(text.find(line), std::string::npos) << line << '\n' << text;
  };
  has("%s.channels_last: bf16[8,8,16] = transpose(%s) {perm=[1,2,0]}");
  has("%b: bf16[2,8,8,16] = add(%a, %s.channels_last)");
  has("= conv2d_nhwc(%b, ");
  has("%d: bf16[8,8,16] = sum(%b) {dims=[0]}");
  has("%d.channels_first: bf16[16,8,8] = transpose(%d) {perm=[2,0,1]}");
  has("%e: bf16[16] = sum(%d.channels_first) {dims=[1,2]}");
  // Its attributes speak of extents.
  has("%f: bf16[2,16,8,8] = broadcast(%d.channels_first)");
}

TEST(ChannelsLast, NothingIsTurnedWhereNothingIsGained) {
  const std::string text = kHead + kConvs + "output c = %c\n";
  EXPECT_EQ(turned_text(text, kNever), text);
}

}  // namespace
}  // namespace trireme
