#include "trireme/ir/equal.h"

#include <gtest/gtest.h>

#include "trireme/ir/builder.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

Graph sum(const char* graph, const char* result, double scale) {
  Builder b(ops(), graph);
  const ValueId x = b.input("x", {DType::f32, {2, 3}});
  b.output("y", b.op("affine", {x}, {{"scale", scale}}, result));
  return b.take();
}

TEST(GraphsAreEqual, InAllThatTheyHave) {
  EXPECT_TRUE(are_equal(sum("a", "y", 2), sum("a", "y", 2)));
  EXPECT_FALSE(are_equal(sum("a", "y", 2), sum("a", "y", 3)));
  EXPECT_FALSE(are_equal(sum("a", "y", 2), sum("a", "z", 2)));
}

TEST(GraphsAreEqual, ButForTheirNamesWhereTheseAreIgnored) {
  EXPECT_FALSE(are_equal(sum("a", "y", 2), sum("b", "y", 2)));
  EXPECT_TRUE(are_equal(sum("a", "y", 2), sum("b", "y", 2), GraphNames::kIgnored));
}

}  // namespace
}  // namespace trireme
