#include "trireme/place/routes.h"

#include <gmock/gmock.h>

#include "trireme/base/error.h"
#include "trireme/place/queues.h"

namespace trireme::place {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two ops of which 60 and 30 % are done below, and one that waits for both, 20 % of it below.
Flow join_of_two() {
  return {{.inputs = {}, .routes = {{0, 6, 1, 0}, {1, 4, 1, 1}}},
          {.inputs = {}, .routes = {{2, 3, 1, 0}, {3, 7, 1, 1}}},
          {.inputs = {0, 1}, .routes = {{4, 2, 1, 0}, {5, 8, 1, 1}}}};
}

TEST(Routes, StayAsLowAsTheyCan) {
  std::vector<double> shares;
  std::vector<std::vector<int>> tiers;
  for (const Way& way : ways_of(join_of_two())) {
    shares.push_back(way.share);
    tiers.push_back(way.tiers);
  }
  EXPECT_THAT(tiers, ElementsAre(ElementsAre(0, 0, 0), ElementsAre(0, 0, 1), ElementsAre(0, 1, 1),
                                 ElementsAre(1, 1, 1)));
  EXPECT_THAT(shares, ElementsAre(testing::DoubleEq(0.2), testing::DoubleNear(0.1, 1e-12),
                                  testing::DoubleNear(0.3, 1e-12), testing::DoubleNear(0.4, 1e-12)));
}

// Every server gets its share to the message, and nothing comes down again.
TEST(Routes, OfAnyNumberOfRequestsHaveTheShares) {
  const Flow flow = join_of_two();
  std::vector<std::vector<int>> counts = {{0, 0}, {0, 0}, {0, 0}};
  int requests = 0;
  for (const std::vector<int>& request : routes_of_requests(flow, 1000)) {
    ++requests;
    EXPECT_TRUE(request[2] == 1 || (request[0] == 0 && request[1] == 0)) << "comes down";
    for (size_t o = 0; o < flow.size(); ++o) {
      ++counts[o][request[o]];
      EXPECT_NEAR(counts[o][0], flow[o].routes[0].share / 10 * requests, 3) << "op " << o;
    }
  }
  EXPECT_THAT(counts, ElementsAre(ElementsAre(600, 400), ElementsAre(300, 700), ElementsAre(200, 800)));
}

TEST(Routes, ThatThePlacementDoesNotPayForAreRefused) {
  Workflow workflow;
  workflow.tiers = {"low", "high"};
  workflow.links = {{0, 1, 1}, {1, 0, 1}};
  workflow.workers = {{"a", 0, 1, 2}, {"b", 1, 1, 2}};
  workflow.sources = {{"camera", 0, 10, 1}};
  workflow.ops = {{"first", {{.is_source = true}}, {{"v", 1, {0.01, 0.01}, {{{}, 1}}}}},
                  {"second", {{.index = 0}}, {{"v", 1, {0.01, 0.01}, {{{0}, 1}}}}}};
  Placement placement{.variants = {0, 0},
                      .shares = {{0, 0, 5}, {0, 1, 5}, {1, 0, 5}, {1, 1, 5}},
                      .traffic = {{0, 0, 0, 0, 5}, {0, 0, 0, 1, 5}, {1, 0, 0, 0, 5}, {1, 0, 1, 1, 5}},
                      .rented = {{1, 1}, {1, 1}}};
  EXPECT_EQ(flow_of(workflow, placement).tiers, std::vector({0, 1, 0, 1}));
  // The same shares, crossing over.
  placement.traffic[2] = {1, 0, 0, 1, 5};
  placement.traffic[3] = {1, 0, 1, 0, 5};
  try {
    flow_of(workflow, placement);
    ADD_FAILURE() << "crossing messages are taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the cheapest messages to op 'second'"));
  }
}

}  // namespace
}  // namespace trireme::place
