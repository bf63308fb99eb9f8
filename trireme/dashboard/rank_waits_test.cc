// Who came last and how long the others waited, by hand.
#include "trireme/dashboard/rank_waits.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trireme::dashboard {
namespace {

std::map<int, NumberLog> logs_of(std::initializer_list<std::pair<int, std::string_view>> lines) {
  std::map<int, NumberLog> logs;
  for (const auto& [rank, text] : lines) logs.try_emplace(rank, "").first->second.add(text);
  return logs;
}

TEST(RankWaits, TheRankThatCommunicatesLeastCameLast) {
  const auto logs = logs_of({{0, R"({"step": 1, "comm_seconds": 0.5}
{"step": 2, "comm_seconds": 0.25}
{"step": 3, "comm_seconds": 1})"},
                             {2, R"({"step": 0, "rank": 2}
{"step": 1, "comm_seconds": 0.125}
{"step": 2, "comm_seconds": 0.75}
{"step": 3, "comm_seconds": 2})"}});
  const WaitsOfRanks waits = waits_of(logs, 0, 10);
  EXPECT_EQ(waits.rows, 3);
  EXPECT_EQ(waits.ranks.at(0).seconds, (std::vector<double>{0.375, 0, 0}));
  EXPECT_EQ(waits.ranks.at(0).rows_last, 2);
  ASSERT_EQ(waits.ranks.at(2).seconds.size(), 4u);
  EXPECT_TRUE(std::isnan(waits.ranks.at(2).seconds[0]));  // the line that says who writes
  EXPECT_EQ(waits.ranks.at(2).seconds[2], 0.5);
  EXPECT_EQ(waits.ranks.at(2).rows_last, 1);
  EXPECT_EQ(waits_of(logs, 2, 2).rows, 1);
}

TEST(RankWaits, AStepThatOneRankAloneHasWrittenSaysNothing) {
  const auto logs = logs_of({{0, R"({"step": 1, "comm_seconds": 0.5}
{"step": 2, "comm_seconds": 0.5})"},
                             {1, R"({"step": 1, "comm_seconds": 0.25})"}});
  const WaitsOfRanks waits = waits_of(logs, 0, 10);
  EXPECT_EQ(waits.rows, 1);
  EXPECT_TRUE(std::isnan(waits.ranks.at(0).seconds[1]));
}

TEST(RankWaits, LinesNeedNotAscend) {
  const auto logs = logs_of({{0, R"({"step": 9, "comm_seconds": 1}
{"step": 3, "comm_seconds": 2}
{"step": 7, "comm_seconds": 1})"},
                             {1, R"({"step": 7, "comm_seconds": 3}
{"step": 9, "comm_seconds": 0}
{"step": 3, "comm_seconds": 2.5})"}});
  const WaitsOfRanks waits = waits_of(logs, 0, 10);
  EXPECT_EQ(waits.rows, 3);
  EXPECT_EQ(waits.ranks.at(0).seconds, (std::vector<double>{1, 0, 0}));
  EXPECT_EQ(waits.ranks.at(1).seconds, (std::vector<double>{2, 0, 0.5}));
}

}  // namespace
}  // namespace trireme::dashboard
