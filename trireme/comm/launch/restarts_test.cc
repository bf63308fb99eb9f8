#include "trireme/comm/launch/restarts.h"

#include <gtest/gtest.h>

namespace trireme::comm {
namespace {

using Seconds = Restarts::Seconds;

TEST(Restarts, WaitsTwiceAsLongEachTimeUpToAMinute) {
  Restarts restarts(9);
  for (const double wait : {1, 2, 4, 8, 16, 32, 60, 60, 60})
    EXPECT_EQ(restarts.next(Seconds(0.1)), Seconds(wait));
  EXPECT_EQ(restarts.count(), 9);
  EXPECT_EQ(restarts.next(Seconds(599)), std::nullopt);
}

TEST(Restarts, AJobThatRanLongBeginsTheCountAgain) {
  Restarts restarts(2);
  EXPECT_EQ(restarts.next(Seconds(1)), Seconds(1));
  EXPECT_EQ(restarts.next(Seconds(1)), Seconds(2));
  EXPECT_EQ(restarts.next(Seconds(600)), Seconds(1));
  EXPECT_EQ(restarts.next(Seconds(1)), Seconds(2));
  EXPECT_EQ(restarts.next(Seconds(1)), std::nullopt);
}

TEST(Restarts, ThereAreNoneUnlessAskedFor) {
  EXPECT_EQ(Restarts(0).next(Seconds(1e6)), std::nullopt);
}

}  // namespace
}  // namespace trireme::comm
