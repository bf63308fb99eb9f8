#include "trireme/place/latency_goal.h"

#include <gmock/gmock.h>

#include "trireme/base/error.h"
#include "trireme/base/statistics.h"
#include "trireme/place/workflow_file.h"

namespace trireme::place {
namespace {

TEST(BestInTime, PaysForShorterWaitingWhatItMust) {
  const Workflow workflow =
      read_workflow(TRIREME_SOURCE_DIR "/examples/workflows/questions_about_images.toml");
  const Requests requests{.count = 5000};
  const auto p99_of = [&](const InTime& found) {
    return quantile_of(simulate_requests(workflow, flow_of(workflow, found.best.placement), requests).latency,
                       0.99);
  };
  const InTime patient = best_in_time(workflow, 60, requests, 60),
               hasty = best_in_time(workflow, 0.4, requests, 60);
  EXPECT_EQ(patient.load, 1);
  EXPECT_LT(hasty.load, 1);
  EXPECT_GT(p99_of(patient), 0.4);
  EXPECT_LE(p99_of(hasty), 0.4);
  EXPECT_GT(cost_of(workflow, hasty.best.placement).total(),
            cost_of(workflow, patient.best.placement).total());
  try {
    best_in_time(workflow, 0.001, requests, 60);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("not answered within 1 ms at any load"));
  }
}

}  // namespace
}  // namespace trireme::place
