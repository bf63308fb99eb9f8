// The file of a timeline, and which events of a trace are in it.
#include "trireme/run/step_timeline.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/temp_folder.h"

namespace trireme {
namespace {

using nlohmann::json;

TEST(StepTimeline, EventsComeByTheirBeginWithWhatTheyHave) {
  const std::vector<TraceEvent> events = {
      {.name = "update", .kind = TraceEvent::Kind::kUpdate, .begin = 2, .end = 2.5},
      {.name = "send to 1",
       .kind = TraceEvent::Kind::kMessage,
       .track = TraceEvent::Track::kCommunication,
       .begin = 1,
       .end = 3,
       .bytes = 8,
       .microbatch = 4}};
  const json file = json::parse(timeline_json({7, 1, 2, {{3, 1, events}}}));
  EXPECT_EQ(file, json::parse(R"({"format": 1, "step": 7, "begin": 1.0, "seconds": 2.0, "ranks": [{"rank": 3,
      "events": [{"name": "send to 1", "kind": "message", "track": "communication", "begin": 1.0, "end": 3.0,
                  "bytes": 8, "microbatch": 4},
                 {"name": "update", "kind": "update", "track": "compute", "begin": 2.0, "end": 2.5}]}]})"));
}

TEST(StepTimeline, OfManyEventsItSaysHowManyAreLeftOut) {
  const std::vector<TraceEvent> events(4100);
  const json rank = json::parse(timeline_json({1, 0, 1, {{0, 1, events}}}))["ranks"][0];
  EXPECT_EQ(rank["events"].size(), 4000u);
  EXPECT_EQ(rank["left_out"], 100);
}

TEST(StepTimeline, ASimulationHasNoStepAndRanksThatStandForOthers) {
  sim::SimReport report{.step_seconds = 0.25, .steps = 2, .ranks = {}};
  report.ranks.push_back({.rank = 4, .stands_for = 8, .device = {}, .memory = {}, .time = {}});
  const json file = json::parse(timeline_json(report));
  EXPECT_FALSE(file.contains("step"));
  EXPECT_EQ(file["seconds"], 0.5);
  EXPECT_EQ(file["ranks"][0]["stands_for"], 8);
}

TEST(StepRecorder, KeepsTheEventsOfItsStep) {
  TempFolder folder;
  Trace trace(Trace::Clock::now(), Trace::Begins::kPaused);
  StepRecorder recorder(&trace, 2, 5);
  for (int64_t step = 4; step <= 6; ++step) {
    recorder.begin(step);
    trace.add({.name = fmt::format("of step {}", step), .begin = trace.now(), .end = trace.now()});
    recorder.end(step, folder.path().string());
  }
  EXPECT_FALSE(trace.is_recording());
  std::ifstream in(folder.path() / "timeline/2.json");
  const json file = json::parse(in);
  EXPECT_EQ(file["step"], 5);
  ASSERT_EQ(file["ranks"][0]["events"].size(), 1u);
  EXPECT_EQ(file["ranks"][0]["events"][0]["name"], "of step 5");
}

// The run rewinds, and makes it again.
TEST(StepRecorder, AStepThatFailsIsRecordedWhenItIsMadeAgain) {
  TempFolder folder;
  Trace trace(Trace::Clock::now(), Trace::Begins::kPaused);
  StepRecorder recorder(&trace, 0, 5);
  const auto add = [&](const char* name) {
    trace.add({.name = name, .begin = trace.now(), .end = trace.now()});
  };
  recorder.begin(5);
  add("of the step that failed");
  recorder.begin(4);
  EXPECT_FALSE(trace.is_recording());
  recorder.end(4, folder.path().string());
  recorder.begin(5);
  add("again");
  recorder.end(5, folder.path().string());
  EXPECT_FALSE(trace.is_recording());
  std::ifstream in(folder.path() / "timeline/0.json");
  const json events = json::parse(in)["ranks"][0]["events"];
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["name"], "again");
}

TEST(StepRecorder, LeavesATraceOfTheWholeRunAsItWas) {
  TempFolder folder;
  Trace trace;
  StepRecorder recorder(&trace, 0, 1);
  recorder.begin(1);
  recorder.end(1, folder.path().string());
  EXPECT_TRUE(trace.is_recording());
}

}  // namespace
}  // namespace trireme
