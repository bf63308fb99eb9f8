// What fits: the needs are those of Programs, sharing lowers them as its closed forms say, and what a model
// can not do has its reason.
#include "trireme/planner/fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/base/error.h"
#include "trireme/planner/choice.h"
#include "trireme/run/plan_subject.h"

namespace trireme::planner {
namespace {

using testing::HasSubstr;

Config four_layers() {
  Config config;
  config.model.layers = 4;
  config.model.heads = 4;
  config.model.hidden = 64;
  config.model.vocab = 512;
  config.model.seq = 16;
  config.train.batch = 8;
  config.train.threads = 1;
  return config;
}

const Need& find(const std::vector<Need>& needs, std::string_view technique) {
  const auto found = std::ranges::find(needs, technique, &Need::technique);
  if (found == needs.end()) throw_error("no technique '{}'", technique);
  return *found;
}

size_t bytes_of(const Need& need, std::string_view kind) {
  const auto found = std::ranges::find(need.memory.kinds, kind, &std::pair<std::string, size_t>::first);
  return found == need.memory.kinds.end() ? 0 : found->second;
}

TEST(Fit, SharingLowersWhatItShares) {
  const std::vector<Need> needs = needs_of(plan_subject(four_layers(), Shape{16}), 4);
  const Need &alone = find(needs, "one device"), &zero1 = find(needs, "zero1 4"),
             &zero3 = find(needs, "zero3 4");
  const double states = static_cast<double>(bytes_of(alone, "optimizer"));
  EXPECT_GT(states, 0);
  // A quarter each, and what alignment takes.
  EXPECT_NEAR(static_cast<double>(bytes_of(zero1, "optimizer")), states / 4, states * 0.05);
  EXPECT_EQ(bytes_of(zero1, "parameter"), bytes_of(alone, "parameter"));
  EXPECT_LT(bytes_of(zero3, "parameter"), bytes_of(alone, "parameter") / 3);
  EXPECT_LT(zero3.memory.peak_bytes, zero1.memory.peak_bytes);
  EXPECT_LE(find(needs, "one device, recompute full").memory.peak_bytes, alone.memory.peak_bytes);
}

// Of a pipeline the stage that needs most: the first, which keeps most microbatches, or a later one, where
// the scores of many words are.
TEST(Fit, TheFullestStageDecides) {
  for (const int64_t vocab : {16, 16384}) {
    SCOPED_TRACE(vocab);
    Config config = four_layers();
    config.model.vocab = vocab;
    const Subject subject = plan_subject(config, Shape{16});
    const Plan plan = plan_of({.pipe = 4, .microbatches = 8, .schedule = "1f1b"}, {});
    const sim::ProgramSource programs = subject.programs(plan, {1, 8}, Subject::Model::kWhole);
    std::vector<size_t> peaks;
    for (int stage = 0; stage < 4; ++stage) peaks.push_back(programs(stage).peak_bytes());
    const auto fullest = std::ranges::max_element(peaks);
    EXPECT_EQ(fullest == peaks.begin(), vocab == 16);
    EXPECT_EQ(find(needs_of(subject, 4), "pipe 4").memory.peak_bytes, *fullest);
  }
}

TEST(Fit, SaysHowMuchIsMissingAndWhatTakesIt) {
  const std::vector<Need> needs = needs_of(plan_subject(four_layers(), Shape{16}), 1);
  ASSERT_EQ(needs.size(), 2);
  DeviceClass device;
  device.memory_bytes = static_cast<double>(needs[0].memory.peak_bytes);
  EXPECT_EQ(needs[0].over_bytes(device), 0);
  device.memory_bytes -= 1000;
  EXPECT_EQ(needs[0].over_bytes(device), 1000);
  EXPECT_EQ(needs[0].largest_kind(), "optimizer");
}

TEST(Fit, WhatAModelCanNotDoHasItsReason) {
  Config config = four_layers();
  config.train.batch = 6;  // over 4 ranks
  const std::vector<Need> uneven = needs_of(plan_subject(config, Shape{16}), 4);
  EXPECT_THAT(find(uneven, "data 4").refused, HasSubstr("6"));
  EXPECT_EQ(find(uneven, "one device").refused, "");
  // Four layers and what stands before and behind them can not be 8 stages.
  const std::vector<Need> short_model = needs_of(plan_subject(four_layers(), Shape{16}), 8);
  EXPECT_NE(find(short_model, "pipe 8").refused, "");
}

}  // namespace
}  // namespace trireme::planner
