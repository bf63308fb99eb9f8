#include "trireme/sim/goodput.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "trireme/base/error.h"
#include "trireme/base/rng.h"

namespace trireme::sim {
namespace {

using testing::HasSubstr;

// The share of work in a long run, failure by failure.
double played_share(const Failures& failures, int devices, double interval) {
  const double mtbf = failures.device_mtbf_seconds / devices;
  const double restart = failures.detect_seconds + failures.restart_seconds;
  uint64_t drawn = 0;
  const auto until_failure = [&] { return -mtbf * std::log1p(-uniform(RngKey{7, 1}, drawn++)); };
  double time = 0, work = 0, next = until_failure();
  while (drawn < 40000) {
    const double end = time + interval + failures.checkpoint_seconds;
    if (next >= end) {
      time = end;
      work += interval;
      continue;
    }
    double back = next + restart;
    next += until_failure();
    while (next < back) {  // while it restarts
      back = next + restart;
      next += until_failure();
    }
    time = back;
  }
  return work / time;
}

TEST(Goodput, IsWhatARunWithFailuresHas) {
  const Failures failures{
      .device_mtbf_seconds = 1e6, .checkpoint_seconds = 20, .detect_seconds = 10, .restart_seconds = 50};
  for (const int devices : {100, 1000, 4000}) {
    const Goodput best = goodput_of(failures, devices);
    EXPECT_NEAR(best.share / played_share(failures, devices, best.interval_seconds), 1, 0.02) << devices;
    EXPECT_NEAR(best.interval_seconds, std::sqrt(2 * 20 * 1e6 / devices), 1e-6);
    // Other intervals are no better where failures are rare beside checkpoints.
    for (const double factor : {0.5, 2.0})
      EXPECT_LT(goodput_of(failures, devices, factor * best.interval_seconds).share, best.share);
  }
}

TEST(Goodput, WithoutFailuresOnlyCheckpointsCost) {
  const Goodput rare = goodput_of({.device_mtbf_seconds = 1e15, .checkpoint_seconds = 10}, 1, 90);
  EXPECT_NEAR(rare.share, 0.9, 1e-6);
}

TEST(Failures, AreReadWithTheirUnits) {
  const Failures failures = parse_failures("mtbf=1000h,checkpoint=1.5min,detect=500ms,restart=2d");
  EXPECT_EQ(failures.device_mtbf_seconds, 3.6e6);
  EXPECT_EQ(failures.checkpoint_seconds, 90);
  EXPECT_EQ(failures.detect_seconds, 0.5);
  EXPECT_EQ(failures.restart_seconds, 2 * 86400);
  const auto complaint = [](std::string_view text) -> std::string {
    try {
      parse_failures(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(complaint("mtbf=1000,checkpoint=1s"), HasSubstr("'1000' is no time"));
  EXPECT_THAT(complaint("mtbf=-1h,checkpoint=1s"), HasSubstr("'-1h' is no time"));
  EXPECT_THAT(complaint("mtbf=1h"), HasSubstr("how long a checkpoint takes"));
  EXPECT_THAT(complaint("mtfb=1h,checkpoint=1s"), HasSubstr("'mtfb=1h' is nothing known"));
}

}  // namespace
}  // namespace trireme::sim
