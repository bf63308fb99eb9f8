// What of an op's time goes with its work.
#include "trireme/bench/step_shares.h"

#include <gtest/gtest.h>

namespace trireme::bench {
namespace {

double predicted(const OpFigures& figures, const OpTime& time) {
  return figures.least_seconds + time.roofline_seconds / figures.share;
}

TEST(StepShares, TwoSizesTellWorkFromWhatIsThereAnyway) {
  const OpTime many{.roofline_seconds = 8, .seconds = 21}, few{.roofline_seconds = 1, .seconds = 7};
  const OpFigures figures = figures_of(many, few);
  EXPECT_DOUBLE_EQ(figures.share, 0.5);
  EXPECT_DOUBLE_EQ(figures.least_seconds, 5);
  EXPECT_DOUBLE_EQ(predicted(figures, few), 7);
}

// Whatever few rows take, the step that is asked about most is met.
TEST(StepShares, ManyRowsAreAlwaysMet) {
  const OpTime many{.roofline_seconds = 8, .seconds = 16};
  for (const std::optional<OpTime>& few :
       {std::optional<OpTime>(), std::optional(OpTime{8, 15}), std::optional(OpTime{1, 0.5}),
        std::optional(OpTime{1, 16}), std::optional(OpTime{1, 40})}) {
    const OpFigures figures = figures_of(many, few);
    EXPECT_DOUBLE_EQ(predicted(figures, many), 16);
    EXPECT_GE(figures.least_seconds, 0);
    EXPECT_GT(figures.share, 0);
    EXPECT_LE(figures.share, 10);
  }
  EXPECT_EQ(figures_of(many, OpTime{8, 15}).least_seconds, 0);   // it does not look at rows
  EXPECT_EQ(figures_of(many, OpTime{1, 0.5}).least_seconds, 0);  // faster than in proportion
}

}  // namespace
}  // namespace trireme::bench
