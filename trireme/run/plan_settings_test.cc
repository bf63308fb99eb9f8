#include "trireme/run/plan_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "trireme/base/error.h"
#include "trireme/train/axis_algorithms.h"

namespace trireme {
namespace {

using testing::HasSubstr;

ResolvedConfig config_with(std::vector<std::string> settings) {
  return resolve_config({.command_line = std::move(settings)});
}

Plan plan_with(const std::string& rest) {
  return parse_plan(R"({"mesh": "data:2")" + rest + "}", "plan.json");
}

TEST(PlanSettings, ThePlanBeatsDefaults) {
  ResolvedConfig config = config_with({});
  apply_plan(plan_with(R"(, "accumulate": 2, "precision": "bf16", "batch_norm": "local")"), config);
  EXPECT_EQ(config.config.train.accumulate, 2);
  EXPECT_EQ(config.config.train.precision, "bf16");
  EXPECT_EQ(config.config.model.batch_norm_groups, 2);
  EXPECT_THAT(config_table(config), HasSubstr("plan"));
}

TEST(PlanSettings, WhatAPersonSetOtherwiseIsAConflict) {
  ResolvedConfig config = config_with({"--train.accumulate=4"});
  EXPECT_THAT(error_of([&] { apply_plan(plan_with(R"(, "accumulate": 2)"), config); }),
              HasSubstr("train.accumulate is 4 (command line), but the plan says 2"));
  EXPECT_EQ(error_of([&] { apply_plan(plan_with(R"(, "accumulate": 4)"), config); }), "no error");
  EXPECT_EQ(error_of([&] { apply_plan(plan_with(""), config); }), "no error");
}

TEST(PlanSettings, RulesBetweenSettingsStillHold) {
  ResolvedConfig config = config_with({"--train.batch=6"});
  EXPECT_THAT(error_of([&] { apply_plan(plan_with(R"(, "accumulate": 4)"), config); }),
              HasSubstr("train.batch"));
}

TEST(PlanSettings, ThePlanOfFewerRanks) {
  const Plan plan = plan_with(R"(, "preset": "zero1", "accumulate": 2)");
  EXPECT_EQ(to_json(with_ranks(plan, 2)), to_json(plan));
  const Plan three = with_ranks(plan, 3);
  EXPECT_EQ(to_string(three.mesh), "data:3");
  EXPECT_EQ(three.preset, "zero1");
  EXPECT_EQ(three.accumulate, 2);
  EXPECT_EQ(to_json(with_ranks(three, 2)), to_json(plan));
  const Plan local = plan_with(R"(, "exchange": {"method": "local", "steps": 5})");
  EXPECT_EQ(with_ranks(local, 4).agreement.period(), 5);
}

TEST(PlanSettings, OnlyRanksAlongDataMayBeFewer) {
  const Plan both = parse_plan(R"({"mesh": "data:2 tensor:2", "preset": "megatron"})", "plan.json");
  EXPECT_THAT(
      error_of([&] { with_ranks(both, 2); }),
      HasSubstr("mesh 'data:2 tensor:2' is for 4 ranks; only a mesh of the axis data alone can have 2"));
}

TEST(PlanSettings, Algorithms) {
  TrainOptions train;
  EXPECT_EQ(axis_algorithms(plan_with(""), train).at("data"), comm::Algorithm::automatic);
  EXPECT_EQ(axis_algorithms(plan_with(R"(, "algorithm": "ring")"), train).at("data"), comm::Algorithm::ring);
  EXPECT_THAT(error_of([&] { axis_algorithms(plan_with(R"(, "algorithm": "rign")"), train); }),
              HasSubstr("did you mean 'ring'?"));
  train.shards = 4;
  EXPECT_EQ(axis_algorithms(plan_with(""), train).at("data"), comm::Algorithm::butterfly);
  EXPECT_THAT(error_of([&] { axis_algorithms(plan_with(R"(, "algorithm": "ring")"), train); }),
              HasSubstr("train.shards adds up by butterfly"));
}

TEST(PlanSettings, NcclAddsUpInItsOwnWay) {
  using comm::DeviceLinks;
  TrainOptions train;
  EXPECT_EQ(error_of([&] { check_links(plan_with(""), train, DeviceLinks::nccl); }), "no error");
  const Plan ring = plan_with(R"(, "algorithm": "ring")");
  EXPECT_THAT(error_of([&] { check_links(ring, train, DeviceLinks::nccl); }),
              HasSubstr("an algorithm for an axis and --transport nccl"));
  EXPECT_EQ(error_of([&] { check_links(ring, train, DeviceLinks::through_host); }), "no error");
  train.shards = 4;
  EXPECT_THAT(error_of([&] { check_links(plan_with(""), train, DeviceLinks::nccl); }),
              HasSubstr("train.shards"));
}

TEST(PlanSettings, GathersPerMicrobatchAreWarnedOf) {
  const auto warning = [](const char* json) { return plan_warning(parse_plan(json, "plan.json"), 8); };
  EXPECT_THAT(warning(R"({"mesh": "pipe:2 data:2", "preset": "zero3"})"), HasSubstr("16 times a step"));
  EXPECT_EQ(warning(R"({"mesh": "pipe:2 data:2", "preset": "zero2"})"), "");
  EXPECT_EQ(warning(R"({"mesh": "pipe:2 data:1", "preset": "zero3"})"), "");
  EXPECT_EQ(warning(R"({"mesh": "data:2", "preset": "zero3"})"), "");
}

}  // namespace
}  // namespace trireme
