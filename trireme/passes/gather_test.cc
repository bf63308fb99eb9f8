#include "trireme/passes/gather.h"

#include <gtest/gtest.h>

#include "trireme/ir/text.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

const GroupQuery kCasts = [](const Graph&, const Node& node) { return node.op->name == "cast"; };

std::string gathered_text(const std::string& text) {
  return print(gathered(parse_graph(text, ops()), kCasts));
}

TEST(Gather, CastsOfStatesComeFirstAndThoseThatNobodyReadsLast) {
  const std::string head =
      "graph g\n"
      "state %a: f32[4]\n"
      "state %b: f32[4]\n"
      "state %ga: f32[4]\n"
      "state %gb: f32[4]\n";
  const std::string tail = "update %ga <- %da\nupdate %gb <- %db\n";
  EXPECT_EQ(gathered_text(head +
                          "%x: bf16[4] = cast(%a) {to=\"bf16\"}\n"
                          "%p: bf16[4] = gelu(%x)\n"
                          "%da: f32[4] = cast(%p) {to=\"f32\"}\n"
                          "%y: bf16[4] = cast(%b) {to=\"bf16\"}\n"
                          "%q: bf16[4] = gelu(%y)\n"
                          "%db: f32[4] = cast(%q) {to=\"f32\"}\n" +
                          tail),
            head +
                "%x: bf16[4] = cast(%a) {to=\"bf16\"}\n"
                "%y: bf16[4] = cast(%b) {to=\"bf16\"}\n"
                "%p: bf16[4] = gelu(%x)\n"
                "%q: bf16[4] = gelu(%y)\n"
                "%da: f32[4] = cast(%p) {to=\"f32\"}\n"
                "%db: f32[4] = cast(%q) {to=\"f32\"}\n" +
                tail);
}

TEST(Gather, ACastBetweenOtherNodesStays) {
  const std::string text =
      "graph g\n"
      "input %x: bf16[4]\n"
      "%p: bf16[4] = gelu(%x)\n"
      "%c: f32[4] = cast(%p) {to=\"f32\"}\n"
      "%q: f32[4] = gelu(%c)\n"
      "output q = %q\n";
  EXPECT_EQ(gathered_text(text), text);
}

TEST(Gather, ACastOfACastComesAfterIt) {
  const std::string text =
      "graph g\n"
      "state %a: f32[4]\n"
      "%x: bf16[4] = cast(%a) {to=\"bf16\"}\n"
      "%y: f32[4] = cast(%x) {to=\"f32\"}\n"
      "%q: f32[4] = gelu(%y)\n"
      "output q = %q\n";
  EXPECT_EQ(gathered_text(text), text);
}

}  // namespace
}  // namespace trireme
