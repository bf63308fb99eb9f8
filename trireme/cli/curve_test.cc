// Curves of numbers that lie further apart than a double holds.
#include "trireme/cli/curve.h"

#include <gtest/gtest.h>

#include "trireme/base/text.h"

namespace trireme::cli {
namespace {

TEST(Curve, OfNumbersThatAreFarApart) {
  const std::vector<CurvePoint> line = {{-1.7e308, -1.7e308}, {0, 0}, {1.6e308, 1.7e308}, {1.7e308, 1.7e308}};
  const std::vector<std::string> rows = split(draw_curve(line, {}, /*width=*/21, /*height=*/3), '\n');
  EXPECT_EQ(rows[0], " 1.7e+308 |                   **");
  EXPECT_EQ(rows[1], "        0 |          *");
  EXPECT_EQ(rows[2], "-1.7e+308 |*");
}

}  // namespace
}  // namespace trireme::cli
