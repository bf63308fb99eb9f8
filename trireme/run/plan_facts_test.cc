// What the file says of plans with stages, with servers, and of one rank.
#include "trireme/run/plan_facts.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "trireme/run/config.h"
#include "trireme/train/step_programs.h"

namespace trireme {
namespace {

using nlohmann::json;

json facts_of_plan(const std::string& text, int64_t accumulate = 1) {
  Config config;
  config.model.family = "gpt";
  config.model.vocab = 64;
  config.model.layers = 2;
  config.model.heads = 2;
  config.model.hidden = 16;
  config.model.seq = 8;
  config.train.batch = 8;
  config.train.accumulate = accumulate;
  const Plan plan = text.empty() ? Plan() : parse_plan(text, "plan");
  const StepPrograms programs(config.model, config.train, config.optim, {8 / accumulate, Shape{8}}, plan);
  return json::parse(
      plan_facts_json(plan, programs.cut(), [&](int rank) { return programs.rank(rank, kNoWorkspace); }));
}

TEST(PlanFacts, OfAPipelineEachStageHasItsUnits) {
  const json facts = facts_of_plan(R"({"mesh": "pipe:2 data:2", "preset": "zero1"})", 2);
  ASSERT_EQ(facts["stages"].size(), 2u);
  EXPECT_EQ(facts["stages"][1]["ranks"], json({2, 3}));
  EXPECT_EQ(facts["stages"][0]["units"], json({"embed", "h.0"}));
  EXPECT_EQ(facts["stages"][1]["units"], json({"h.1", "head", "loss"}));
  EXPECT_NEAR(facts["stages"][0]["work"].get<double>() + facts["stages"][1]["work"].get<double>(), 2, 1e-9);
  EXPECT_GT(facts["stages"][0]["sent_bytes"]["pipe"], 0);
  EXPECT_GT(facts["stages"][0]["sent_bytes"]["data"], 0);
}

TEST(PlanFacts, ParametersSayOverWhichAxesTheyAreSplit) {
  const json facts = facts_of_plan(R"({"mesh": "data:1 tensor:2", "preset": "megatron"})");
  int split = 0;
  for (const json& one : facts["parameters"]) {
    const bool smaller = one["whole"] != one["own"];
    EXPECT_EQ(one["axes"] == json({"tensor"}), smaller) << one;
    split += smaller;
  }
  EXPECT_GT(split, 3);
}

TEST(PlanFacts, ServersAndWorkersAreStagesOfTheirOwn) {
  const json facts = facts_of_plan(R"({"mesh": "data:4", "exchange": {"method": "server", "servers": 1}})");
  ASSERT_EQ(facts["stages"].size(), 2u);
  EXPECT_EQ(facts["stages"][0]["ranks"], json({0}));
  EXPECT_EQ(facts["stages"][1]["ranks"], json({1, 2, 3}));
}

TEST(PlanFacts, OneRankHasAllAndSendsNothing) {
  const json facts = facts_of_plan("");
  EXPECT_EQ(facts["mesh"], json::array());
  ASSERT_EQ(facts["stages"].size(), 1u);
  EXPECT_EQ(facts["stages"][0]["sent_bytes"], json::object());
}

}  // namespace
}  // namespace trireme
