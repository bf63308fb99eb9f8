#include "trireme/passes/rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/ir/text.h"
#include "trireme/ir/verify.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

using testing::ElementsAre;

// Two parameters, each with a norm over the ranks that its new value is scaled by.
TEST(Rounds, NormsOfAllParametersComeTogether) {
  std::string text = "graph update\nstate %u: f32[4]\nstate %v: f32[4]\n";
  for (const std::string w : {"u", "v"}) {
    text += "%half_" + w + ": f32[4] = gelu(%" + w + ")\n";
    text += "%norm_" + w + ": f32[] = sum_squares(%" + w + ")\n";
    text += "%sum_" + w + ": f32[] = all_reduce(%norm_" + w +
            ") {axis=\"data\", ways=2, coordinate=0, reduction=\"sum\"}\n";
    text += "%new_" + w + ": f32[4] = mul(%half_" + w + ", %sum_" + w + ")\n";
  }
  const Graph graph = in_rounds(parse_graph(text + "update %u <- %new_u\nupdate %v <- %new_v\n", ops()));
  verify(graph);
  std::vector<std::string> made;
  for (const Node& node : graph.nodes) made.push_back(graph.values[node.outputs[0]].name);
  // What the new values alone need is made as late as before: it takes no memory meanwhile.
  EXPECT_THAT(made, ElementsAre("norm_u", "sum_u", "norm_v", "sum_v", "half_u", "new_u", "half_v", "new_v"));
}

}  // namespace
}  // namespace trireme
