// Text in, prune, text out.
#include "trireme/passes/prune.h"

#include <gtest/gtest.h>

#include "trireme/ir/text.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

TEST(Prune, KeepsWhatOutputsAndUpdatesNeed) {
  const Graph graph = parse_graph(
      "graph g\n"
      "state %w: f32[2]\n"
      "input %x: f32[2]\n"
      "%dead: f32[2] = exp(%x)\n"
      "%dead2: f32[2] = neg(%dead)\n"
      "%a: f32[2] = add(%x, %w)\n"
      "%b: f32[2] = neg(%w)\n"
      "update %w <- %b\n"
      "output y = %a\n",
      ops());
  EXPECT_EQ(print(prune(graph)),
            "graph g\n"
            "state %w: f32[2]\n"
            "input %x: f32[2]\n"
            "%a: f32[2] = add(%x, %w)\n"
            "%b: f32[2] = neg(%w)\n"
            "update %w <- %b\n"
            "output y = %a\n");
}

TEST(Prune, ANodeStaysForAnyOfItsResults) {
  const std::string text =
      "input %x: f32[4]\n"
      "%a: f32[1], %b: f32[3] = split(%x) {dim=0, sizes=[1,3]}\n"
      "output y = %b\n";
  EXPECT_EQ(print(prune(parse_graph(text, ops()))), text);
}

TEST(Prune, InputsAndStatesStayThoughNothingReadsThem) {
  const std::string text = "state %w: f32[2]\ninput %x: f32[2]\n";
  EXPECT_EQ(print(prune(parse_graph(text + "%y: f32[2] = neg(%x)\n", ops()))), text);
}

}  // namespace
}  // namespace trireme
