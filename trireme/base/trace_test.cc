// What overlaps gets tracks of its own, and arrows have both ends.
#include "trireme/base/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Not;

TraceEvent sent(const char* name, double begin, double end) {
  return {.name = name, .track = TraceEvent::Track::kCommunication, .begin = begin, .end = end, .bytes = 8};
}

TEST(Trace, GivesWhatOverlapsTracksOfItsOwn) {
  // a and b overlap, c begins when a has ended.
  const std::string part =
      trace_part(3, "rank 3", {sent("b", 0.001, 0.004), sent("a", 0, 0.002), sent("c", 0.002, 0.003)});
  EXPECT_THAT(part, HasSubstr(R"("pid":3,"tid":1,"ts":0.000,"dur":2000.000,"name":"a","args":{"bytes":8})"));
  EXPECT_THAT(part, HasSubstr(R"("tid":2,"ts":1000.000,"dur":3000.000,"name":"b")"));
  EXPECT_THAT(part, HasSubstr(R"("tid":1,"ts":2000.000,"dur":1000.000,"name":"c")"));
  EXPECT_THAT(part, HasSubstr(R"("tid":2,"name":"thread_name","args":{"name":"communication 2"})"));
  EXPECT_THAT(part, Not(HasSubstr("communication 3")));
}

// 0.6 to 2.2 ns and 2.2 to 3.9 ns are 1 to 2 and 2 to 4 in whole nanoseconds. Had durations been rounded, the
// first would last 2 ns, to 3.
TEST(Trace, WhatFollowsWithoutAGapDoesNotOverlap) {
  const std::string part = trace_part(
      0, "a", {{.name = "x", .begin = 0.6e-9, .end = 2.2e-9}, {.name = "y", .begin = 2.2e-9, .end = 3.9e-9}});
  EXPECT_THAT(part, HasSubstr(R"("ts":0.001,"dur":0.001,"name":"x")"));
  EXPECT_THAT(part, HasSubstr(R"("ts":0.002,"dur":0.002,"name":"y")"));
}

// Viewers nest what begins together in the order of the file.
TEST(Trace, TellsWhatBeginsTogetherFromTheOutsideIn) {
  const std::string part =
      trace_part(0, "a", {{.name = "inner", .begin = 1, .end = 2}, {.name = "outer", .begin = 1, .end = 3}});
  EXPECT_LT(part.find("outer"), part.find("inner"));
}

TEST(Trace, DrawsArrowsFromBeginToEnd) {
  TraceEvent leaves = sent("send", 1, 2), arrives = sent("receive", 1, 3);
  leaves.arrow = TraceEvent::Arrow::kLeaves;
  arrives.arrow = TraceEvent::Arrow::kArrives;
  leaves.message = arrives.message = 7;
  EXPECT_THAT(trace_part(0, "a", {leaves}),
              HasSubstr(R"({"ph":"s","pid":0,"tid":1,"ts":1000000.000,"id":7)"));
  EXPECT_THAT(trace_part(1, "b", {arrives}),
              HasSubstr(R"({"ph":"f","pid":1,"tid":1,"ts":3000000.000,"id":7)"));
}

TEST(Trace, KeepsNamesHarmless) {
  EXPECT_THAT(trace_part(0, "a\"b\\c\n", {}), HasSubstr(R"("name":"a\"b\\c?")"));
}

TEST(Trace, SaysWhatTimeGoesInto) {
  TraceEvent event = sent("x", 0, 1);
  event.kind = TraceEvent::Kind::kWait;
  EXPECT_THAT(trace_part(0, "a", {event}), HasSubstr(R"({"ph":"X","cat":"wait",)"));
}

TEST(Trace, APausedOneKeepsNothing) {
  Trace trace(Trace::Clock::now(), Trace::Begins::kPaused);
  trace.add(sent("before", 0, 1));
  trace.record(true);
  trace.add(sent("while", 1, 2));
  trace.record(false);
  trace.add(sent("after", 2, 3));
  ASSERT_EQ(trace.events().size(), 1u);
  EXPECT_EQ(trace.events()[0].name, "while");
}

TEST(Trace, LeavesOutWhatItHasNoRoomFor) {
  Trace trace;
  for (size_t i = 0; i < Trace::kRoom + 5; ++i) trace.add({});
  EXPECT_TRUE(trace.full());
  EXPECT_EQ(trace.events().size(), Trace::kRoom);
}

}  // namespace
}  // namespace trireme
