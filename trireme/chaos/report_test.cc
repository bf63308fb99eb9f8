#include "trireme/chaos/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "trireme/chaos/runs.h"

namespace trireme::chaos {
namespace {

using testing::HasSubstr;

Result result_of(double detection, const std::string& broken = "",
                 const std::vector<std::string>& plans = {}) {
  return {.drill = chosen({.only = {"elastic-kill"}, .transport = "tcp", .plans = plans}).front(),
          .seed = 7,
          .broken = broken,
          .detections = {detection},
          .recoveries = {2.5, 1.5},
          .steps_again = 1};
}

TEST(ChaosReport, ALineHasTheSlowestAgainstItsLimit) {
  const std::string line = table_line(result_of(0.25));
  EXPECT_THAT(line, HasSubstr("0.25 / 1"));
  EXPECT_THAT(line, HasSubstr("2.50 / 5"));
  EXPECT_THAT(line, HasSubstr("kept"));
  EXPECT_THAT(table_line(result_of(2, "too late")), HasSubstr("BROKEN"));
}

TEST(ChaosReport, TheCommandRepeatsADrill) {
  EXPECT_EQ(command_of(result_of(1)), "trireme chaos --only elastic-kill --transport tcp --seed 7");
  EXPECT_EQ(command_of(result_of(1, "", {"zero1"})),
            "trireme chaos --only elastic-kill --transport tcp --seed 7 --plan 'zero1'");
}

TEST(ChaosReport, PercentilesAreOfAllRoundsOfADrill) {
  std::vector<Result> results;
  for (int i = 1; i <= 100; ++i) results.push_back(result_of(i / 100.0, i == 100 ? "late" : ""));
  const std::string text = summary_of(results);
  EXPECT_THAT(text, HasSubstr("elastic-kill over tcp: kept in 99 of 100 drills, steps made again at most 1"));
  EXPECT_THAT(text, HasSubstr("detected  p50 0.50 s, p95 0.95 s, p99 0.99 s, most 1.00 s"));
  EXPECT_EQ(summary_of(std::span(results).first(1)), "");
}

TEST(ChaosReport, PercentilesAreOfEachPlanAndOfAll) {
  std::vector<Result> results;
  for (int i = 1; i <= 10; ++i) results.push_back(result_of(i / 10.0, "", {i % 2 == 0 ? "zero1" : "data"}));
  const std::string text = summary_of(results);
  EXPECT_THAT(text, HasSubstr("elastic-kill over tcp under data: kept in 5 of 5 drills"));
  EXPECT_THAT(text, HasSubstr("elastic-kill over tcp under zero1: kept in 5 of 5 drills"));
  EXPECT_THAT(text, HasSubstr("elastic-kill in all: kept in 10 of 10 drills"));
}

TEST(ChaosReport, JsonHasWhatWasMeasuredAndWhatWasPromised) {
  const std::vector<Result> results = {result_of(0.5), result_of(3, "too late")};
  const auto json = json_of(results);
  EXPECT_EQ(json[0]["detection_seconds"], std::vector<double>{0.5});
  EXPECT_EQ(json[0]["detection_limit_seconds"], 1.0);
  EXPECT_EQ(json[0]["kept"], true);
  EXPECT_FALSE(json[0].contains("broken"));
  EXPECT_EQ(json[1]["broken"], "too late");
}

TEST(ChaosRuns, AreALeakWhereFilesOrMemoryGrow) {
  Runs runs{.results = {}, .rounds = 2, .after_first_round = {10, 50 << 20}, .at_end = {10, 55 << 20}};
  EXPECT_EQ(runs.leak(), "");
  runs.at_end.descriptors = 11;
  EXPECT_THAT(runs.leak(), HasSubstr("10 open files after the first round, 11 at the end"));
  runs.at_end = {10, 90 << 20};
  EXPECT_THAT(runs.leak(), HasSubstr("90.0 MiB at the end"));
}

TEST(ChaosRuns, GrowWhereTheLastSamplesAreAboveAllOfTheFirst) {
  std::vector<JobResources> samples;
  for (int i = 0; i < 40; ++i)
    samples.push_back(
        {.launcher = {10 + i % 2, 10 << 20}, .rank = {20, size_t{20} << 20}, .shared_files = i % 5});
  EXPECT_EQ(growth_in(samples), "");
  for (int i = 20; i < 40; ++i) samples[static_cast<size_t>(i)].launcher.descriptors = i;
  EXPECT_EQ(growth_in(samples),
            "open files of the launcher: 11 at most in the first 10 samples, 30 at least in the last 10");
  for (int i = 20; i < 40; ++i) samples[static_cast<size_t>(i)].launcher.descriptors = 10;
  for (int i = 20; i < 40; ++i) samples[static_cast<size_t>(i)].rank.resident_bytes += size_t{5} << 20;
  EXPECT_THAT(growth_in(samples), HasSubstr("memory of a rank: 20.0 MiB at most"));
  EXPECT_EQ(growth_in(std::span(samples).first(5)), "");
}

}  // namespace
}  // namespace trireme::chaos
