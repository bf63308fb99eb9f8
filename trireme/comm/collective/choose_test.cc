// The table and its file, the fitted link, and that the choice follows the times.
#include "trireme/comm/collective/choose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "trireme/base/error.h"
#include "trireme/comm/collective/algorithms.h"
#include "trireme/comm/collective/formula.h"

namespace trireme::comm {
namespace {

using testing::HasSubstr;

constexpr Link kNetwork{
    .alpha_seconds = 10e-6, .beta_seconds_per_byte = 1e-9, .gamma_seconds_per_byte = 1e-10};

LinkTable network() {
  LinkTable table;
  table.transport = "tcp";
  table.ranks = 8;
  table.link = kNetwork;
  return table;
}

// The butterfly is the faster one up to 4 KiB, the ring from there on.
LinkTable timed() {
  LinkTable table = network();
  table.timed[Collective::all_reduce] = {
      {Algorithm::ring, Curve{{1024, 40e-6}, {4096, 50e-6}, {1 << 20, 900e-6}}},
      {Algorithm::butterfly, Curve{{1024, 10e-6}, {4096, 50e-6}, {1 << 20, 3e-3}}}};
  return table;
}

Call all_reduce(int64_t count, Algorithm algorithm = Algorithm::automatic) {
  return {.collective = Collective::all_reduce, .algorithm = algorithm, .dtype = DType::f32, .count = count};
}

TEST(SecondsAt, IsStraightBetweenWhatWasMeasured) {
  const Curve curve{{100, 1.0}, {200, 3.0}, {400, 4.0}};
  EXPECT_DOUBLE_EQ(seconds_at(curve, 0), 1.0);
  EXPECT_DOUBLE_EQ(seconds_at(curve, 100), 1.0);
  EXPECT_DOUBLE_EQ(seconds_at(curve, 150), 2.0);
  EXPECT_DOUBLE_EQ(seconds_at(curve, 200), 3.0);
  EXPECT_DOUBLE_EQ(seconds_at(curve, 300), 3.5);
  EXPECT_DOUBLE_EQ(seconds_at(curve, 400), 4.0);
  EXPECT_DOUBLE_EQ(seconds_at({{0, 2.0}}, 0), 2.0);
}

TEST(SecondsAt, BeyondTheLastSizeTheOrderStays) {
  const Curve falls{{100, 9.0}, {200, 8.0}}, grows{{100, 1.0}, {200, 7.0}};
  EXPECT_DOUBLE_EQ(seconds_at(falls, 2000), 80.0);
  EXPECT_DOUBLE_EQ(seconds_at(grows, 2000), 70.0);
}

TEST(Choose, TheFastestThatWasTimed) {
  EXPECT_EQ(choose(all_reduce(512), 8, {}, timed(), false).algorithm, Algorithm::butterfly);
  const Choice choice = choose(all_reduce(1 << 18), 8, {}, timed(), false);
  EXPECT_EQ(choice.algorithm, Algorithm::ring);
  EXPECT_DOUBLE_EQ(choice.predicted_seconds, 900e-6);
  EXPECT_EQ(choice.segment_bytes, kDefaultSegmentBytes);
  // A tree was not timed. By its closed form it would win here, but that is no match for a time.
  LinkTable quick = timed();
  quick.link = {};
  EXPECT_EQ(choose(all_reduce(512), 8, {}, quick, false).algorithm, Algorithm::butterfly);
}

TEST(Choose, BeyondWhatWasTimedTimesGrowAsClosedFormsDo) {
  // Timed at 1 KiB alone, where the butterfly is ahead: on a slow link nothing longer was tried.
  LinkTable table = network();
  table.timed[Collective::all_reduce] = {{Algorithm::ring, {{1024, 140e-6}}},
                                         {Algorithm::butterfly, {{1024, 30e-6}}}};
  EXPECT_EQ(choose(all_reduce(512), 8, {}, table, false).algorithm, Algorithm::butterfly);
  EXPECT_EQ(choose(all_reduce(1 << 24), 8, {}, table, false).algorithm, Algorithm::ring);
  // Nothing could be fitted: as the bytes do.
  table.link = {};
  EXPECT_DOUBLE_EQ(choose(all_reduce(512), 8, {}, table, false).predicted_seconds, 60e-6);
}

TEST(Choose, ByClosedFormsForOtherGroups) {
  for (const int ranks : {4, 7}) {
    for (const int64_t count : {2, 1 << 20}) {
      const Choice choice = choose(all_reduce(count), ranks, {}, timed(), false);
      double least = 1;
      for (const Algorithm algorithm : algorithms_of(Collective::all_reduce)) {
        if (algorithm == Algorithm::hierarchical) continue;
        least = std::min(least, formula_seconds(formula(Collective::all_reduce, algorithm, ranks),
                                                static_cast<size_t>(count) * 4, kNetwork));
      }
      EXPECT_DOUBLE_EQ(choice.predicted_seconds, least) << ranks << " ranks, " << count;
    }
  }
  EXPECT_EQ(choose(all_reduce(2), 4, {}, network(), false).algorithm, Algorithm::butterfly);
  EXPECT_EQ(choose(all_reduce(10 << 20), 7, {}, network(), false).algorithm, Algorithm::ring);
}

TEST(Choose, TwoLevelsWhereTheyWereTimedAsTheFastest) {
  const std::vector<int> hosts = {0, 0, 0, 0, 1, 1, 1, 1};
  for (const Collective collective :
       {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather, Collective::broadcast}) {
    LinkTable table = network();
    table.timed[collective] = {{Algorithm::ring, {{1024, 40e-6}, {1 << 20, 2e-3}}},
                               {Algorithm::hierarchical, {{1024, 90e-6}, {1 << 20, 1e-3}}}};
    Call call{.collective = collective, .dtype = DType::f32, .count = 256};
    EXPECT_EQ(choose(call, 8, hosts, table, false).algorithm, Algorithm::ring) << name(collective);
    call.count = 1 << 18;
    EXPECT_EQ(choose(call, 8, hosts, table, false).algorithm, Algorithm::hierarchical) << name(collective);
  }
}

TEST(FixedChoice, TwoLevelsForLongVectorsOnHostsOfSeveral) {
  const std::vector<int> shared = {0, 0, 1, 1}, apart = {0, 1, 2, 3}, uneven = {0, 0, 0, 1};
  for (const Collective collective :
       {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather, Collective::broadcast}) {
    const Call small{.collective = collective, .dtype = DType::f32, .count = 64};
    const Call large{.collective = collective, .dtype = DType::f32, .count = 1 << 20};
    EXPECT_EQ(fixed_choice(large, false, shared).algorithm, Algorithm::hierarchical) << name(collective);
    EXPECT_EQ(fixed_choice(large, true, shared).algorithm, Algorithm::native) << name(collective);
    EXPECT_NE(fixed_choice(small, false, shared).algorithm, Algorithm::hierarchical) << name(collective);
    for (const std::vector<int>& hosts : {apart, uneven, std::vector<int>()})
      EXPECT_NE(fixed_choice(large, false, hosts).algorithm, Algorithm::hierarchical) << name(collective);
  }
  const Call gather{.collective = Collective::gather, .dtype = DType::f32, .count = 1 << 20};
  EXPECT_EQ(fixed_choice(gather, false, shared).algorithm, Algorithm::naive);
}

TEST(FixedChoice, TwoLevelsForSmallEqualPartsOfAnAllToAll) {
  const std::vector<int> shared = {0, 0, 0, 0, 1, 1, 1, 1};
  Call call{.collective = Collective::all_to_all, .dtype = DType::f32, .count = 8 * 512};
  EXPECT_EQ(fixed_choice(call, false, shared).algorithm, Algorithm::hierarchical);
  for (const std::vector<int>& hosts :
       {std::vector<int>{}, {0, 0, 0, 0, 0, 0, 0, 0}, {0, 1, 2, 3, 4, 5, 6, 7}, {0, 0, 0, 0, 0, 1, 1, 1}})
    EXPECT_EQ(fixed_choice(call, false, hosts).algorithm, Algorithm::naive);
  call.count = 8 * 513;
  EXPECT_EQ(fixed_choice(call, false, shared).algorithm, Algorithm::naive);
  call.count = 0;  // parts that are not equal
  EXPECT_EQ(fixed_choice(call, false, shared).algorithm, Algorithm::naive);
}

TEST(Choose, ANamedAlgorithmStays) {
  const Choice choice = choose(all_reduce(1 << 18, Algorithm::butterfly), 8, {}, timed(), true);
  EXPECT_EQ(choice.algorithm, Algorithm::butterfly);
  EXPECT_DOUBLE_EQ(choice.predicted_seconds, 3e-3);
}

TEST(Choose, NativeWhereItIsFasterOrUnknown) {
  EXPECT_EQ(choose(all_reduce(512), 8, {}, timed(), true).algorithm, Algorithm::native);
  LinkTable table = timed();
  table.timed[Collective::all_reduce][Algorithm::native] = Curve{{1024, 20e-6}, {1 << 20, 200e-6}};
  EXPECT_EQ(choose(all_reduce(256), 8, {}, table, true).algorithm, Algorithm::butterfly);
  EXPECT_EQ(choose(all_reduce(1 << 18), 8, {}, table, true).algorithm, Algorithm::native);
  EXPECT_EQ(choose(all_reduce(1 << 18), 8, {}, table, false).algorithm, Algorithm::ring);
}

TEST(Choose, NothingToSendTakesNoTime) {
  EXPECT_EQ(choose(all_reduce(0), 8, {}, timed(), false).predicted_seconds, 0);
  EXPECT_GT(choose({.collective = Collective::barrier}, 8, {}, timed(), false).predicted_seconds, 0);
}

TEST(LinkTable, TheFittedLinkIsTheOneThatTheTimesCameFrom) {
  LinkTable table = network();
  for (const Collective collective : {Collective::all_reduce, Collective::all_gather}) {
    for (const Algorithm algorithm : algorithms_of(collective)) {
      Curve points;
      for (const size_t bytes : {size_t{8}, size_t{4096}, size_t{1} << 20, size_t{1} << 24})
        points.push_back({bytes, formula_seconds(formula(collective, algorithm, 8), bytes, kNetwork)});
      table.timed[collective][algorithm] = points;
    }
  }
  // No closed form: it must not count.
  table.timed[Collective::all_reduce][Algorithm::native] = Curve{{8, 1.0}};
  const Link link = fit_link(table, {});
  EXPECT_NEAR(link.alpha_seconds, kNetwork.alpha_seconds, 0.02 * kNetwork.alpha_seconds);
  EXPECT_NEAR(link.beta_seconds_per_byte, kNetwork.beta_seconds_per_byte,
              0.02 * kNetwork.beta_seconds_per_byte);
  EXPECT_NEAR(link.gamma_seconds_per_byte, kNetwork.gamma_seconds_per_byte,
              0.2 * kNetwork.gamma_seconds_per_byte);
}

TEST(LinkTable, FileReadsBackAsWritten) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("tables_" + std::to_string(getpid()) + ".json")).string();
  std::vector<LinkTable> tables = {network(), timed()};
  tables[1].memory = MemoryKind::ordinary;
  write_link_tables(path, tables);
  const std::vector<LinkTable> again = read_link_tables(path);
  std::filesystem::remove(path);
  EXPECT_EQ(to_json(again), to_json(tables));
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(again[1].memory, MemoryKind::ordinary);
  EXPECT_EQ(again[1].link.beta_seconds_per_byte, 1e-9);
  EXPECT_EQ(again[1].timed, tables[1].timed);
}

TEST(LinkTable, NearestNumberOfRanksIsUsed) {
  std::vector<LinkTable> tables(3, network());
  tables[0].ranks = 2;
  tables[1].memory = MemoryKind::ordinary;
  tables[2].ranks = 16;
  EXPECT_EQ(find_link_table(tables, "tcp", 4), &tables[0]);
  EXPECT_EQ(find_link_table(tables, "tcp", 12), &tables[2]);
  EXPECT_EQ(find_link_table(tables, "tcp", 2, MemoryKind::ordinary), &tables[1]);
  EXPECT_EQ(find_link_table(tables, "shm", 2), nullptr);
}

std::string problem_of(std::string_view json) {
  try {
    parse_link_tables(json, "links.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string table_text(std::string_view timed) {
  return R"([{"transport": "shm", "memory": "transport", "ranks": 2, "link": {"alpha_seconds": 1e-6,
      "beta_seconds_per_byte": 1e-9, "gamma_seconds_per_byte": 0}, "timed": )" +
         std::string(timed) + "}]";
}

TEST(LinkTable, BadFilesAreRefusedWithTheirPlace) {
  EXPECT_EQ(problem_of(table_text(R"({"all_reduce": {"ring": [{"bytes": 8, "seconds": 1}]}})")), "");
  for (const auto& [json, words] : std::vector<std::pair<std::string, std::string>>{
           {"[", "links.json is not JSON"},
           {"{}", "links.json is not a list"},
           {"[{}]", "links.json[0] has no \"transport\""},
           {table_text(R"({"all_reduced": {}})"), ".timed.all_reduced is not the name of a collective"},
           {table_text(R"({"gather": {"ring": []}})"), ".timed.gather.ring is not an algorithm of gather"},
           {table_text(R"({"all_reduce": {"automatic": []}})"), "is not an algorithm of all_reduce"},
           {table_text(R"({"all_reduce": {"ring": []}})"), "is not a list with something in it"},
           {table_text(
                R"({"all_reduce": {"ring": [{"bytes": 8, "seconds": 1}, {"bytes": 8, "seconds": 1}]}})"),
            "has 8 bytes after 8"},
           {table_text(R"({"all_reduce": {"ring": [{"bytes": 8, "seconds": -1}]}})"),
            "expected a number from 0"},
           // What calibration wrote before there was a table.
           {R"([{"transport": "shm", "ranks": 2, "inside": {"message": [{"bytes": 8, "seconds": 1e-6}]}}])",
            "links.json[0] comes from an older Trireme"}}) {
    EXPECT_THAT(problem_of(json), HasSubstr(words)) << json;
    EXPECT_THAT(problem_of(json), HasSubstr("trireme bench collectives --calibrate")) << json;
  }
}

}  // namespace
}  // namespace trireme::comm
