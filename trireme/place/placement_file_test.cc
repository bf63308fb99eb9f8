#include "trireme/place/placement_file.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/place/report.h"

namespace trireme::place {
namespace {

using testing::HasSubstr;

Workflow two_tiers() {
  Workflow workflow;
  workflow.tiers = {"edge", "cloud"};
  workflow.links = {{0, 1, 1}};
  workflow.workers = {{"box", 0, 1, 3}, {"gpu", 1, 2, 1}};
  workflow.sources = {{"camera", 0, 100, 1}};
  workflow.ops = {{"read", {{.is_source = true}}, {{"small", 1, {0.03, 0.005}, {{{}, 1}}}}}};
  return workflow;
}

BestPlacement half_in_each() {
  return {.placement = {.variants = {0},
                        .shares = {{0, 0, 50}, {0, 1, 50}},
                        .traffic = {{0, 0, 0, 0, 50}, {0, 0, 0, 1, 50}},
                        .rented = {{2, 1}}}};
}

std::string placement_refusal(const std::string& text) {
  try {
    parse_placement(text, two_tiers(), "p.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(PlacementFile, IsReadAsItWasWritten) {
  const std::string text = to_json(two_tiers(), half_in_each()).dump();
  const BestPlacement again{.placement = parse_placement(text, two_tiers(), "p.json")};
  EXPECT_EQ(to_json(two_tiers(), again).dump(), text);
}

TEST(PlacementFile, OfAnotherWorkflowIsRefused) {
  const auto changed = [](const std::string& from, const std::string& to) {
    std::string text = to_json(two_tiers(), half_in_each()).dump();
    return text.replace(text.find(from), from.size(), to);
  };
  EXPECT_THAT(placement_refusal("{"), HasSubstr("p.json: not JSON"));
  EXPECT_THAT(placement_refusal("[]"), HasSubstr("'ops' is missing"));
  EXPECT_THAT(placement_refusal(changed("small", "large")), HasSubstr("variant 'large' is not in the workflow"));
  EXPECT_THAT(placement_refusal(changed("\"gpu\"", "\"tpu\"")), HasSubstr("worker 'tpu' is not in the workflow"));
  EXPECT_THAT(placement_refusal(changed("\"count\":2", "\"count\":1")),
              HasSubstr("not a placement of this workflow: workers 'box' compute 1.5"));
  EXPECT_THAT(placement_refusal(changed("\"count\":2", "\"count\":2.5")), HasSubstr("a whole number expected"));
  EXPECT_THAT(placement_refusal(changed("camera", "kamera")), HasSubstr("does not take messages of 'kamera'"));
}

}  // namespace
}  // namespace trireme::place
