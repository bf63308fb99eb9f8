// The order of arrivals as logs have it.
#include "trireme/train/arrival_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "trireme/data/test_files.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

Agreement servers_of(int count, int ranks) {
  return {{{.method = "server", .numbers = {{"servers", count}}}}, ranks};
}

TEST(Arrivals, AreReadFromALogAndHeldAgainstItsRanks) {
  const TempFolder folder;
  const auto read = [&](const std::string& text, int workers) {
    folder.write("metrics.jsonl", text);
    return read_arrivals((folder.path() / "metrics.jsonl").string(), servers_of(1, 1 + workers), 1 + workers,
                         /*rank=*/0);
  };
  const std::string log =
      "{\"step\": 1, \"arrivals\": [2, 1]}\n{\"step\": 1, \"validation_loss\": 3}\n"
      "{\"step\": 2, \"arrivals\": [-2, 1, 1]}\n";
  EXPECT_EQ(read(log, 2), (ArrivalOrder{{1, {2, 1}}, {2, {-2, 1, 1}}}));
  EXPECT_THAT(error_of([&] { read(log, 1); }), HasSubstr("in step 1, 2 is among the arrivals"));
  EXPECT_THAT(error_of([&] { read("{\"step\": 1, \"arrivals\": [0]}\n", 2); }), HasSubstr("0 is among"));
  EXPECT_THAT(error_of([&] { read("{\"step\": 1, \"loss\": 2}\n", 2); }), HasSubstr("has no arrivals"));
  EXPECT_THAT(error_of([&] { read_arrivals("/nowhere/metrics.jsonl", servers_of(1, 3), 3, 0); }),
              HasSubstr("cannot read"));
}

TEST(Arrivals, OfSeveralServersAreReadByServer) {
  const TempFolder folder;
  folder.write(
      "metrics.jsonl",
      "{\"step\": 1, \"loss\": 2, \"arrivals\": [2, 3]}\n{\"step\": 1, \"rank\": 1, \"arrivals\": [3, 2]}\n");
  const auto read = [&](int servers, int server) {
    return read_arrivals((folder.path() / "metrics.jsonl").string(), servers_of(servers, servers + 2),
                         servers + 2, server);
  };
  EXPECT_EQ(read(2, 0), (ArrivalOrder{{1, {2, 3}}}));
  EXPECT_EQ(read(2, 1), (ArrivalOrder{{1, {3, 2}}}));
  EXPECT_THAT(error_of([&] { read(3, 2); }), HasSubstr("has no arrivals of rank 2"));
  EXPECT_THAT(error_of([&] { read(1, 0); }), HasSubstr("3 is among the arrivals; workers are 1 to 2"));
}

TEST(Arrivals, OfRanksThatMixWeightsAreReadByRank) {
  const TempFolder folder;
  const auto read = [&](const std::string& text, int rank) {
    folder.write("metrics.jsonl", text);
    return read_arrivals((folder.path() / "metrics.jsonl").string(), {{{.method = "ad_psgd"}}, 3},
                         /*ranks=*/3, rank);
  };
  const std::string log =
      "{\"step\": 1, \"loss\": 2, \"arrivals\": [2, 1]}\n{\"step\": 1, \"rank\": 2, \"arrivals\": [0]}\n"
      "{\"step\": 2, \"rank\": 0, \"arrivals\": []}\n";
  EXPECT_EQ(read(log, 0), (ArrivalOrder{{1, {2, 1}}, {2, {}}}));
  EXPECT_EQ(read(log, 2), (ArrivalOrder{{1, {0}}}));
  EXPECT_THAT(error_of([&] { read(log, 1); }), HasSubstr("has no arrivals of rank 1"));
  EXPECT_THAT(error_of([&] { read("{\"step\": 1, \"arrivals\": [3]}\n", 0); }),
              HasSubstr("ranks are 0 to 2"));
  EXPECT_THAT(error_of([&] { read("{\"step\": 1, \"arrivals\": [-1]}\n", 0); }), HasSubstr("-1 is among"));
}

}  // namespace
}  // namespace trireme
