// A log as it grows, and as it must not be.
#include "trireme/dashboard/number_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "tests/support/temp_folder.h"
#include "trireme/dashboard/answers.h"
#include "trireme/dashboard/guard.h"
#include "trireme/dashboard/run_files.h"

namespace trireme::dashboard {
namespace {

using ::testing::ElementsAre;
using ::testing::NanSensitiveDoubleEq;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

const auto kNothing = NanSensitiveDoubleEq(std::numeric_limits<double>::quiet_NaN());

TEST(NumberLog, ColumnsHaveAPlaceForEveryRow) {
  NumberLog log("");
  log.add("{\"step\": 1, \"loss\": 2.5}\n{\"step\": 1, \"held_out\": 3}\n{\"step\": 2, \"loss\": null}\n");
  EXPECT_THAT(log.names(), ElementsAre("step", "loss", "held_out"));
  EXPECT_THAT(log.column("step"), ElementsAre(1, 1, 2));
  EXPECT_THAT(log.column("loss"), ElementsAre(2.5, kNothing, kNothing));
  EXPECT_THAT(log.column("held_out"), ElementsAre(kNothing, 3, kNothing));
  EXPECT_TRUE(log.column("other").empty());
}

TEST(NumberLog, OnlyNumbersOfTheObjectItselfCount) {
  NumberLog log("");
  log.add(
      "{\"a\": {\"step\": 7}, \"b\": [8, [9]], \"c\": \"10\", \"d\": true, \"step\": 1, \"a\": 2}\n[3]\n4\n\"x\"\n");
  EXPECT_EQ(log.rows(), 1u);
  EXPECT_THAT(log.names(), UnorderedElementsAre("step", "a"));
  EXPECT_THAT(log.column("a"), ElementsAre(2));
}

TEST(NumberLog, OfALineThatBreaksOffNothingIsTaken) {
  NumberLog log("");
  log.add("{\"step\": 1}\n{\"step\": 2, \"loss\n{\"step\": 3}\n");
  EXPECT_EQ(log.broken_lines(), 1);
  EXPECT_THAT(log.column("step"), ElementsAre(1, kNothing, 3));
}

TEST(NumberLog, ManyNamesAndDeepValuesAreCutOff) {
  NumberLog log("");
  for (int i = 0; i < 1000; ++i) log.add("{\"name" + std::to_string(i) + "\": 1}\n");
  EXPECT_EQ(log.names().size(), 256u);
  log.add(std::string(100'000, '[') + "\n{\"a\": " + std::string(100'000, '[') + "\n");
  EXPECT_EQ(log.names().size(), 256u);
}

TEST(NumberLog, ReadsWhatIsNewAndNothingTwice) {
  const TempFolder folder;
  const std::string path = folder.write("log", "{\"step\": 1}\n{\"st").string();
  NumberLog log(path);
  EXPECT_TRUE(log.refresh());
  EXPECT_THAT(log.column("step"), ElementsAre(1));
  EXPECT_FALSE(log.refresh());
  std::ofstream(path, std::ios::app) << "ep\": 2}\n";
  EXPECT_TRUE(log.refresh());
  EXPECT_THAT(log.column("step"), ElementsAre(1, 2));
  folder.write("log", "{\"step\": 5}\n");  // shorter: it was written anew
  EXPECT_TRUE(log.refresh());
  EXPECT_THAT(log.column("step"), ElementsAre(5));
  std::filesystem::remove(path);
  EXPECT_TRUE(log.refresh());
  EXPECT_EQ(log.rows(), 0u);
}

TEST(RunFiles, SettingsByDottedName) {
  EXPECT_THAT(flat_toml("[a]\nb = 1\nc = \"x y\"\nd = [1, 2.5]\n[a.e]\nf = 3e-4\ng = true\n"),
              UnorderedElementsAre(Pair("a.b", "1"), Pair("a.c", "x y"), Pair("a.d", "[ 1, 2.5 ]"),
                                   Pair("a.e.f", "0.0003"), Pair("a.e.g", "true")));
  EXPECT_TRUE(flat_toml("a = ").empty());
  std::string deep = "a";
  for (int i = 0; i < 10'000; ++i) deep += ".a";
  EXPECT_TRUE(flat_toml(deep + " = 1").empty());
}

TEST(SummaryPage, NamesAreTextAndNotMarkup) {
  EXPECT_EQ(escaped("<a href=\"x\">'&'</a>"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
}

// The rest is asked over the network by tests/dashboard/server_test.py.
TEST(Guard, HostsThatNobodyElseCanPointHere) {
  const std::string token = http::new_token();
  EXPECT_EQ(token.size(), 32u);
  EXPECT_NE(token, http::new_token());
  const Guard guard(token, {"cluster.example"});
  const auto passes = [&](const std::string& host) {
    return !guard.stops({.headers = {{"host", host}, {"authorization", "Bearer " + token}}}, 80);
  };
  for (const char* host : {"localhost", "localhost:8080", "127.0.0.1:1", "[::1]:8080", "[::1]", "192.168.1.7",
                           "cluster.example:80"})
    EXPECT_TRUE(passes(host)) << host;
  for (const char* host :
       {"", ":80", "[", "[]", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example",
        "cluster.example.evil", "0x7f000001.example", "[::1].evil.example:80", "[::1"})
    EXPECT_FALSE(passes(host)) << host;
}

}  // namespace
}  // namespace trireme::dashboard
