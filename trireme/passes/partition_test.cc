// What partition makes is named after what it is made of; that it computes the same, tests/parity shows.
#include "trireme/passes/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/ir/text.h"
#include "trireme/ir/verify.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> names_on_rank_1(const char* text, const Mesh& mesh, const Pins& pins) {
  const Graph whole = parse_graph(text, ops());
  const Graph local = partition(whole, mesh, pins, spread(whole, mesh, pins), /*rank=*/1, ops());
  verify(local);
  std::vector<std::string> names;
  for (const Node& node : local.nodes) names.push_back(local.values[node.outputs[0]].name);
  return names;
}

TEST(Partition, NamesCollectivesByWhatTheyMove) {
  const Mesh mesh({{"data", 2}, {"tensor", 2}});
  Pins pins;
  const Layout columns = parse_layout("{tensor:1}", mesh), rows = parse_layout("{tensor:0}", mesh);
  pins.states["mlp.first"] = {parse_layout("{data:0 tensor:1}", mesh), columns};
  pins.states["mlp.second"] = {rows, rows};
  EXPECT_THAT(names_on_rank_1("input %x: f32[2,4]\n"
                              "state %mlp.first: f32[4,8]\n"
                              "state %mlp.second: f32[8,4]\n"
                              "%mlp/matmul: f32[2,8] = matmul(%x, %mlp.first)\n"
                              "%mlp/matmul~2: f32[2,4] = matmul(%mlp/matmul, %mlp.second)\n"
                              "output y = %mlp/matmul~2\n",
                              mesh, pins),
              ElementsAre("mlp.first.all_gather.data", "mlp/matmul", "mlp/matmul~2",
                          "mlp/matmul~2.all_reduce.tensor"));
}

TEST(Partition, NamesPartsByWhatTheyAreCutFrom) {
  const Mesh mesh({{"tensor", 2}});
  Pins pins;
  pins.values["a/exp"] = parse_layout("{tensor:0}", mesh);
  pins.values["b/exp"] = parse_layout("{tensor:0x2}", mesh);
  EXPECT_THAT(names_on_rank_1("input %x: f32[8]\n"
                              "%a/exp: f32[8] = exp(%x)\n"
                              "%b/exp: f32[8] = exp(%x)\n",
                              mesh, pins),
              ElementsAre("x.slice.tensor", "a/exp", "x.blocks.tensor", "x.slice_of_blocks.tensor",
                          "x.slice.tensor~2", "b/exp"));
}

TEST(Partition, KeepsTheNamesOfAllResults) {
  const Mesh mesh({{"tensor", 2}});
  const Graph whole =
      parse_graph("input %x: f32[8]\n%a: f32[4], %b: f32[4] = split(%x) {dim=0, sizes=[4,4]}\n", ops());
  const Graph local = partition(whole, mesh, {}, spread(whole, mesh, {}), /*rank=*/0, ops());
  EXPECT_NE(local.find("a"), kNoValue);
  EXPECT_NE(local.find("b"), kNoValue);
}

}  // namespace
}  // namespace trireme
