// Paths of scopes as text.
#include "trireme/ir/scope.h"

#include <gtest/gtest.h>

#include "trireme/ir/text.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

TEST(Scope, IsWhatStandsBeforeTheLastSlash) {
  EXPECT_EQ(scope_of("h.3/attn/matmul"), "h.3/attn");
  EXPECT_EQ(scope_of("h.3/attn/matmul.all_reduce.tensor"), "h.3/attn");
  EXPECT_EQ(scope_of("matmul"), "");
}

TEST(Scope, OfANodeIsThatOfItsFirstResult) {
  const Graph graph = parse_graph(
      "input %x: f32[3]\n"
      "%h.0/split: f32[1], %elsewhere: f32[2] = split(%x) {dim=0, sizes=[1,2]}\n",
      ops());
  EXPECT_EQ(scope_of(graph, graph.nodes[0]), "h.0");
}

TEST(Scope, HasParts) {
  for (const char* part : {"h.3", "attn", "grad"}) EXPECT_TRUE(has_part("h.3/attn/grad", part)) << part;
  for (const char* part : {"h", "att", "h.3/attn", ""}) EXPECT_FALSE(has_part("h.3/attn/grad", part)) << part;
  EXPECT_TRUE(has_part("grad", "grad"));
}

TEST(Scope, OfWhatIsMadeAgain) {
  for (const char* name : {"h.3/attn/matmul", "gelu", "h.3/ln_1/layer_norm.2"})
    EXPECT_EQ(name_before(name_again(name)), name);
  EXPECT_EQ(name_again("h.3/attn/matmul"), "h.3/attn/again/matmul");
  EXPECT_EQ(name_again("gelu"), "again/gelu");
  EXPECT_EQ(name_before("h.3/attn/matmul"), "h.3/attn/matmul");
  EXPECT_EQ(name_before("again"), "again");
}

TEST(Scope, Joins) {
  EXPECT_EQ(join_scopes("h.3", "attn"), "h.3/attn");
  EXPECT_EQ(join_scopes("", "attn"), "attn");
  EXPECT_EQ(join_scopes("h.3", ""), "h.3");
}

TEST(Scope, NamesOfParametersAreNotRepeated) {
  EXPECT_EQ(name_within("h.3/attn", "h.3.attn.c_attn.weight"), "c_attn.weight");
  EXPECT_EQ(name_within("h.3", "h.3.attn"), "attn");
  EXPECT_EQ(name_within("h.3", "h.30.attn"), "h.30.attn");
  EXPECT_EQ(name_within("h.3/attn", "h.3.mlp"), "h.3.mlp");
  EXPECT_EQ(name_within("head", "head"), "");
  EXPECT_EQ(name_within("h.3/attn", "h"), "h");
  EXPECT_EQ(name_within("", "wte.weight"), "wte.weight");
}

}  // namespace
}  // namespace trireme
