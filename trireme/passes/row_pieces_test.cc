#include "trireme/passes/row_pieces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/ir/builder.h"
#include "trireme/ir/window.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

using testing::ElementsAre;

const TensorType kScalar{DType::f32, {}}, kMatrix{DType::f32, {10, 3}};

struct PiecedUpdate {
  Builder b{ops(), "update"};
  ValueId lr = b.input("lr", kScalar, Role::kScalar), scale = b.input("scale", kScalar, Role::kScalar);
  ValueId w = b.state("w", kMatrix, Role::kParameter), g = b.state("g", kMatrix, Role::kGradient),
          u = b.state("u", kMatrix, Role::kOptimizer);

  void momentum(ValueId with) {
    const auto results = b.node("momentum", {w, g, u, lr, with},
                                {{"momentum", 0.9}, {"nesterov", int64_t{0}}, {"weight_decay", 0.0}});
    b.update(w, results[0]);
    b.update(u, results[1]);
    b.output("scale", scale);
  }
};

TEST(RowPieces, SeeSomeRowsOfEachState) {
  PiecedUpdate update;
  update.momentum(update.scale);
  const std::vector<Graph> pieces = in_row_pieces(update.b.take(), {10, 3}, 4, ops());
  std::vector<std::string> names;
  std::vector<int64_t> firsts, rows;
  for (const Graph& piece : pieces) {
    names.push_back(piece.name);
    const Value& u = piece.values[piece.find("u")];
    firsts.push_back(first_row(u));
    rows.push_back(u.type.shape[0]);
    EXPECT_EQ(whole_type(u), kMatrix);
    EXPECT_EQ(without_window(u).type, kMatrix);
    EXPECT_FALSE(without_window(u).attrs.has("first_row"));
    EXPECT_EQ(piece.values[piece.find("lr")].type, kScalar);
    EXPECT_EQ(piece.updates.size(), 2u);
  }
  EXPECT_THAT(names, ElementsAre("update.rows0", "update.rows1", "update"));
  EXPECT_THAT(firsts, ElementsAre(0, 4, 8));
  EXPECT_THAT(rows, ElementsAre(4, 4, 2));
  EXPECT_TRUE(pieces[0].outputs.empty());
  EXPECT_EQ(pieces[2].outputs.size(), 1u);
}

TEST(RowPieces, AreNotMadeWhereAnOpMixesRows) {
  PiecedUpdate update;
  update.momentum(update.b.op("sum_squares", {update.g}));
  const Graph graph = update.b.take();
  EXPECT_EQ(in_row_pieces(graph, {10, 3}, 4, ops()).size(), 1u);
  PiecedUpdate simple;
  simple.momentum(simple.scale);
  EXPECT_EQ(in_row_pieces(simple.b.take(), {10, 3}, 10, ops()).size(), 1u);  // and where one is enough
}

}  // namespace
}  // namespace trireme
