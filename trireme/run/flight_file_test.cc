// The file comes back as it was written, and what is no such file is refused.
#include "trireme/run/flight_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

FlightFile small_flight() {
  comm::FlightRecord record{
      .ranks = 3, .entries = {}, .ends = {{1, "was stuck"}}, .behind = {"rank 1 is behind"}};
  record.entries = {{.rank = 0,
                     .group = "world",
                     .number = 11,
                     .call = "all_reduce",
                     .bytes = 4096,
                     .state = "running",
                     .ago_seconds = 2.5,
                     .seconds = 0,
                     .others_at = {}},
                    {.rank = 1,
                     .group = "world",
                     .number = 4,
                     .call = "barrier",
                     .bytes = 0,
                     .state = "done",
                     .ago_seconds = 3,
                     .seconds = 0.25,
                     .others_at = 11}};
  return {.time = 1234.5, .record = record};
}

TEST(FlightFile, ComesBackAsItWasWritten) {
  const FlightFile flight = small_flight(), again = parse_flight(render_flight(flight), "flight.json");
  EXPECT_EQ(again.time, flight.time);
  EXPECT_EQ(again.record, flight.record);
}

TEST(FlightFile, RefusesWhatIsNone) {
  const std::string good = render_flight(small_flight());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  for (const std::string& text :
       {std::string("["), std::string("[]"), std::string("{}"), with("\"ranks\": 3", "\"ranks\": 0"),
        with("\"ranks\": 3", "\"ranks\": 1"), with("\"time\": 1234.5", "\"time\": \"x\""),
        with("\"bytes\": 4096", "\"bytes\": -1"), with("\"ranks\": 3", "\"ranks\": 3e30")})
    EXPECT_THAT(error_of([&] { parse_flight(text, "flight.json"); }), HasSubstr("flight.json")) << text;
}

}  // namespace
}  // namespace trireme
