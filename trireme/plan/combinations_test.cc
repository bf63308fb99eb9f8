// The table of what does not go together: each row once, each feature in one, and the document as it is.
// That each row is really refused is tested with models (tests/exchange/combinations_test.cc).
#include "trireme/plan/combinations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "trireme/base/error.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Combinations, AreThereOnceAndOfEveryFeature) {
  std::set<std::pair<Feature, Feature>> rows;
  Features seen;
  for (const Combination& row : combinations()) {
    EXPECT_NE(row.one, row.other);
    EXPECT_GT(row.reason.size(), 20u);
    EXPECT_TRUE(rows.insert(std::minmax(row.one, row.other)).second) << name(row.one) << name(row.other);
    seen.insert({row.one, row.other});
  }
  for (int i = 0; i < kFeatures; ++i) {
    const auto feature = static_cast<Feature>(i);
    EXPECT_FALSE(name(feature).empty()) << i;
    EXPECT_TRUE(seen.contains(feature)) << name(feature);
  }
}

TEST(Combinations, AreRefusedWhenThePlanIsRead) {
  const auto read = [](const char* plan) { parse_plan(plan, "plan.json"); };
  EXPECT_THAT(
      [&] { read(R"({"mesh": "data:2", "preset": "zero2", "exchange": "local"})"); },
      ThrowsMessage<Error>(testing::AllOf(
          HasSubstr("d_psgd, sgp, ad_psgd) and zero1, zero2 or zero3 without an axis replica do not go "
                    "together: ranks along data have"),
          HasSubstr("Give the mesh an axis replica"))));
  EXPECT_NO_THROW(read(R"({"mesh": "replica:2 data:2", "preset": "zero2", "exchange": "local"})"));
  EXPECT_NO_THROW(read(R"({"mesh": "data:2", "preset": "zero2", "exchange": "top_k"})"));
  EXPECT_NO_THROW(read(R"({"mesh": "data:2", "preset": "zero2", "exchange": "all_reduce"})"));
}

TEST(Combinations, KnowTheFeaturesOfAPlan) {
  using enum Feature;
  const auto features = [](const char* plan) { return features_of(parse_plan(plan, "plan.json")); };
  EXPECT_TRUE(features(R"({"mesh": "data:2"})").empty());
  EXPECT_THAT(features(R"({"mesh": "pipe:2 data:1 tensor:2", "preset": "megatron", "schedule": "2bw"})"),
              ElementsAre(kPipe, kOtherAxes, kSplitTensors, kAsynchronous, kMegatron));
  EXPECT_THAT(features(R"({"mesh": "data:4", "exchange": {"method": "server", "servers": 2}})"),
              ElementsAre(kExchange, kServed, kServers));
  EXPECT_THAT(features(R"({"mesh": "data:4", "exchange": {"method": "dgc", "warmup": 3}})"),
              ElementsAre(kExchange, kWarmUp));
  EXPECT_THAT(features(R"({"mesh": "data:4", "exchange": "ad_psgd"})"),
              ElementsAre(kExchange, kOwnWeights, kOwnPace));
}

TEST(Combinations, AreInTheDocument) {
  std::ifstream file(TRIREME_SOURCE_DIR "/docs/combinations.md");
  ASSERT_TRUE(file) << "docs/combinations.md cannot be read";
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), combinations_document())
      << "make it again: trireme inspect combinations > docs/combinations.md";
}

}  // namespace
}  // namespace trireme
