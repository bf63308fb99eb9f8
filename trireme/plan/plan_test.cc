#include "trireme/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/base/error.h"

namespace trireme {
namespace {

using testing::HasSubstr;

template <typename Body>
std::string error_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string parse_error(std::string_view json) {
  return error_of([&] { parse_plan(json, "plan.json"); });
}

TEST(Plan, APresetTakesAllRanks) {
  const Plan plan = read_plan("zero2", 3);
  EXPECT_EQ(to_string(plan.mesh), "data:3");
  EXPECT_EQ(plan.preset, "zero2");
}

TEST(Plan, PartsOfAPresetJoin) {
  const Plan plan = parse_plan(R"({"mesh": "data:2 tensor:4", "preset": "megatron+zero1"})", "plan.json");
  EXPECT_TRUE(plan.has("megatron"));
  EXPECT_TRUE(plan.has("zero1"));
  EXPECT_FALSE(plan.has("zero"));
  EXPECT_EQ(to_string(read_plan("megatron", 2).mesh), "tensor:2");
}

TEST(Plan, TextRoundTrip) {
  const Plan plan = read_plan("zero3", 4);
  const Plan again = parse_plan(to_json(plan), "plan.json");
  EXPECT_EQ(again.mesh, plan.mesh);
  EXPECT_EQ(again.preset, plan.preset);
}

TEST(Plan, MistakesAreNamed) {
  EXPECT_THAT(parse_error("data"), HasSubstr("no JSON object"));
  EXPECT_THAT(parse_error("{}"), HasSubstr("there is no mesh"));
  EXPECT_THAT(parse_error(R"({"mehs": "data:2"})"), HasSubstr("unknown key 'mehs'; did you mean 'mesh'?"));
  EXPECT_THAT(parse_error(R"({"mesh": 2})"), HasSubstr("mesh is 2; a text expected"));
  EXPECT_THAT(parse_error(R"({"mesh": "data:2", "preset": "zreo1"})"), HasSubstr("did you mean 'zero1'?"));
  EXPECT_THAT(parse_error(R"({"mesh": "data:2 tensor:2"})"), HasSubstr("no use for the axis 'tensor'"));
  EXPECT_THAT(parse_error(R"({"mesh": "data:2", "preset": "data+zero1"})"), HasSubstr("says twice"));
  EXPECT_THAT(parse_error(R"({"mesh": "data:x"})"), HasSubstr("'data:x' found"));
  EXPECT_THAT(error_of([] { read_plan("zero9", 2); }), HasSubstr("neither a preset nor a file"));
}

}  // namespace
}  // namespace trireme
