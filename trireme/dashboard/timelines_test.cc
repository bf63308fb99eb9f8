// Files of ranks as one timeline, and files that are none.
#include "trireme/dashboard/timelines.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/temp_folder.h"

namespace trireme::dashboard {
namespace {

std::string file_of(int rank, int step, double begin) {
  return fmt::format(
      R"({{"format":1,"step":{},"begin":{},"seconds":0.5,"ranks":[{{"rank":{},"events":[
         {{"name":"x","kind":"update","track":"compute","begin":{},"end":{},"bytes":8,"more":[1]}},
         {{"name":"no end","begin":1}}, 7]}}]}})",
      step, begin, rank, begin + 0.125, begin + 0.25);
}

class Timelines : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) { folder_.write("timeline/" + name, text); }
  nlohmann::ordered_json read() { return read_timelines(folder_.path().string()); }
  TempFolder folder_;
};

TEST_F(Timelines, RanksOfOneStepCountFromTheFirst) {
  write("0.json", file_of(0, 10, 100.25));
  write("1.json", file_of(1, 10, 100));
  write("2.json", file_of(2, 4, 50));  // of an earlier start, with more ranks
  write("notes.json", "{}");
  const auto found = read();
  EXPECT_TRUE(found["simulated"].is_null());
  const auto& real = found["real"];
  EXPECT_EQ(real["step"], 10);
  ASSERT_EQ(real["ranks"].size(), 2u);
  EXPECT_EQ(real["ranks"][0]["begin"], 0.25);
  EXPECT_EQ(real["ranks"][1]["begin"], 0);
  EXPECT_EQ(real["seconds"], 0.75);
  ASSERT_EQ(real["ranks"][0]["events"].size(), 1u);
  EXPECT_EQ(real["ranks"][0]["events"][0],
            nlohmann::ordered_json::parse(
                R"({"name":"x","kind":"update","track":"compute","begin":0.375,"end":0.5,"bytes":8})"));
}

TEST_F(Timelines, WhatIsNoneIsLeftOut) {
  EXPECT_TRUE(read()["real"].is_null());
  write("0.json", R"({"begin": 1)");
  write("1.json", R"({"begin": "1", "seconds": 2})");
  write("simulated.json", R"({"begin": 0, "seconds": 1, "ranks": [{"events": []}, {"rank": 3}]})");
  const auto found = read();
  EXPECT_TRUE(found["real"].is_null());
  ASSERT_EQ(found["simulated"]["ranks"].size(), 1u);
  EXPECT_EQ(found["simulated"]["ranks"][0]["rank"], 3);
}

TEST_F(Timelines, LinksAreNotFollowed) {
  TempFolder other;
  other.write("timeline/0.json", file_of(0, 1, 0));
  std::filesystem::create_symlink(other.path() / "timeline", folder_.path() / "timeline");
  EXPECT_TRUE(read()["real"].is_null());
}

}  // namespace
}  // namespace trireme::dashboard
