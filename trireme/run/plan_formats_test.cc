#include "trireme/run/plan_formats.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(PlanFormats, AreThoseThatThePrecisionAllows) {
  Config config;
  EXPECT_EQ(number_formats(config), (std::vector<NumberFormats>{{"f32", "f32"}}));
  config.train.precision = "bf16";
  config.train.weight_precision = "bf16";
  EXPECT_EQ(number_formats(config),
            (std::vector<NumberFormats>{{"bf16", "f32"}, {"f32", "f32"}, {"bf16", "bf16"}}));
  const Config other = with_formats(config, {"bf16", "bf16"});
  EXPECT_EQ(other.train.gradient_precision, "bf16");
  EXPECT_EQ(to_string(NumberFormats{"bf16", "f32"}),
            "train.weight_precision=bf16 train.gradient_precision=f32");
}

}  // namespace
}  // namespace trireme
