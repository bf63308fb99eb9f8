#include "trireme/bench/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "trireme/mesh/cluster_file.h"

namespace trireme::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

SweepBase base_of_gpt(const std::string& plan) {
  return {.source = {.settings = {"model.family=gpt", "model.layers=2", "model.heads=4", "model.hidden=32",
                                  "model.vocab=64", "model.seq=16", "train.batch=16"}},
          .plan = parse_plan(plan, "the plan"),
          .cluster = read_cluster("v100")};
}

std::vector<SweepPoint> points_of(const SweepBase& base, const std::vector<std::string>& texts) {
  std::vector<Swept> swept;
  for (const std::string& text : texts) swept.push_back(parse_swept(text));
  size_t heard = 0;
  std::vector<SweepPoint> points = sweep(base, swept, [&](const SweepPoint&) { ++heard; });
  EXPECT_EQ(heard, points.size());
  return points;
}

TEST(Sweep, KeysThatChangeTogether) {
  const Swept one = parse_swept("mesh=data:2,data:4 tensor:2");
  EXPECT_THAT(one.keys, ElementsAre("mesh"));
  EXPECT_THAT(one.values, ElementsAre(ElementsAre("data:2"), ElementsAre("data:4 tensor:2")));
  const Swept two = parse_swept("data,train.batch=8:64,16:128");
  EXPECT_THAT(two.keys, ElementsAre("data", "train.batch"));
  EXPECT_THAT(two.values, ElementsAre(ElementsAre("8", "64"), ElementsAre("16", "128")));
  for (const char* text : {"data", "data=", "=1", "data=1,,2"})
    EXPECT_THAT(error_of([&] { parse_swept(text); }), HasSubstr("--sweep '")) << text;
  EXPECT_THAT(error_of([] { parse_swept("data,train.batch=8:64,16"); }),
              HasSubstr("'16' has not one value for each of data, train.batch"));
}

// Each point is the prediction of the plan and the settings written out.
TEST(Sweep, PointsArePredictions) {
  const SweepBase base = base_of_gpt(R"({"mesh":"data:2 tensor:1","preset":"megatron+zero1"})");
  const std::vector<SweepPoint> points = points_of(base, {"data,train.batch=2:16,4:32", "tensor=1,2"});
  ASSERT_EQ(points.size(), 4u);
  EXPECT_THAT(points[1].values, ElementsAre("2", "16", "2"));
  EXPECT_THAT(points[2].values, ElementsAre("4", "32", "1"));
  for (const auto& [at, mesh, batch] :
       {std::tuple(1, "data:2 tensor:2", "16"), {2, "data:4 tensor:1", "32"}}) {
    StepSource source = base.source;
    source.settings.push_back(std::string("train.batch=") + batch);
    const Plan plan = parse_plan(std::string(R"({"preset":"megatron+zero1","mesh":")") + mesh + "\"}", "it");
    const Prediction expected = predict(set_up_step(source, plan), plan, base.cluster);
    const SweepPoint& point = points[static_cast<size_t>(at)];
    ASSERT_TRUE(point.prediction) << point.refusal;
    EXPECT_EQ(point.prediction->report.step_seconds, expected.report.step_seconds);
    EXPECT_EQ(point.prediction->units_per_second, expected.units_per_second);
    EXPECT_EQ(point.plan.mesh.ranks(), plan.mesh.ranks());
  }
  EXPECT_NE(points[0].prediction->report.step_seconds, points[1].prediction->report.step_seconds);
}

// A plan that can not be is a row with the reason, and the others are simulated.
TEST(Sweep, RefusedPointsStay) {
  const std::vector<SweepPoint> points =
      points_of(base_of_gpt(R"({"mesh":"tensor:2","preset":"megatron"})"), {"tensor=2,64,0"});
  ASSERT_EQ(points.size(), 3u);
  EXPECT_TRUE(points[0].prediction);
  EXPECT_FALSE(points[1].prediction);
  EXPECT_THAT(points[1].refusal, HasSubstr("64"));
  EXPECT_THAT(points[2].refusal, HasSubstr("tensor is '0', expected a whole number from 1"));
}

// What belongs together is applied together: neither value alone is a plan.
TEST(Sweep, KeysOfThePlan) {
  const std::vector<SweepPoint> points = points_of(base_of_gpt(R"({"mesh":"pipe:2","accumulate":4})"),
                                                   {"schedule,chunks=1f1b:1,interleaved:1,interleaved:2"});
  ASSERT_EQ(points.size(), 3u);
  EXPECT_TRUE(points[0].prediction) << points[0].refusal;
  EXPECT_FALSE(points[1].prediction);
}

TEST(Sweep, KeysAreChecked) {
  const SweepBase base = base_of_gpt(R"({"mesh":"data:2"})");
  EXPECT_THAT(
      error_of([&] { points_of(base, {"tensor=1,2"}); }),
      HasSubstr("'tensor' is neither a setting, like train.batch, nor hosts, a key of the plan or an axis"));
  EXPECT_THAT(error_of([&] { points_of(base, {"schedul=1f1b"}); }), HasSubstr("did you mean 'schedule'"));
  EXPECT_THAT(error_of([&] { points_of(base, {"data=1,2", "data=4"}); }), HasSubstr("data comes twice"));
  EXPECT_THAT(error_of([&] {
                points_of(base, {"mesh=data:2", "data=4"});
              }),
              HasSubstr("both mesh and its axis data"));
}

TEST(Sweep, ChartHasALineForEachChoice) {
  const std::vector<Swept> swept = {parse_swept("data=1,2,8"), parse_swept("train.precision=f32,f16")};
  const std::vector<SweepPoint> points =
      sweep(base_of_gpt(R"({"mesh":"data:2"})"), swept, [](const auto&) {});
  const LineChart chart = sweep_chart(swept, points, sweep_figure("rate"));
  ASSERT_EQ(chart.lines.size(), 2u);
  EXPECT_EQ(chart.legend[1].name, "train.precision=f16");
  ASSERT_EQ(chart.lines[0].points.size(), 3u);
  EXPECT_EQ(chart.lines[0].points[2].x, 3);  // log2: the sizes are far apart
  EXPECT_EQ(chart.lines[1].points[0].y, points[1].prediction->units_per_second);
  EXPECT_EQ(chart.y_label, "tokens per second");
  EXPECT_THAT(chart.draw(), HasSubstr("train.precision=f16</text>"));
}

}  // namespace
}  // namespace trireme::bench
