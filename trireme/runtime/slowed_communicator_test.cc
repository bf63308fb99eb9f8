#include "trireme/runtime/slowed_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <thread>

#include "tests/support/error_of.h"
#include "tests/support/times.h"
#include "trireme/runtime/mesh_communicator.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

TEST(SlowRank, IsReadOrRefused) {
  EXPECT_EQ(parse_slow_rank("rank=2,factor=3.5", 4), (SlowRank{2, 3.5}));
  const auto refusal = [](const char* text) { return error_of([&] { parse_slow_rank(text, 4); }); };
  EXPECT_THAT(refusal("rank=4,factor=3"), HasSubstr("a rank from 0 to 3 expected"));
  EXPECT_THAT(refusal("factor=3"), HasSubstr("a rank from 0 to 3 expected"));
  EXPECT_THAT(refusal("rank=1,factor=0.5"), HasSubstr("a factor from 1 to 1000 expected"));
  EXPECT_THAT(refusal("rank=1"), HasSubstr("a factor from 1"));
  EXPECT_THAT(refusal("rank=one,factor=2"), HasSubstr("rank=2,factor=3 is of the form expected"));
  EXPECT_THAT(refusal("2"), HasSubstr("of the form expected"));
}

// A rank that computes for 10 ms between collectives, 5 times, and is three times as slow.
TEST(SlowedCommunicator, TakesSoManyTimesLongerAndSaysNothingOfItAsCommunication) {
  comm::run_rank_threads(2, [](comm::Context& context) {
    MeshCommunicator communicator(Mesh({{"data", 2}}), context);
    SlowedCommunicator slowed(communicator, 3);
    Communicator& used = context.rank() == 1 ? static_cast<Communicator&>(slowed) : communicator;
    float value = 1;
    const auto add = [&] {
      used.all_reduce("data", reinterpret_cast<std::byte*>(&value), 1, DType::f32,
                      Communicator::Reduction::kSum);
    };
    add();
    used.take_seconds();
    used.take_bytes();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 5; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      used.progress();
      add();
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(value, 64);
    EXPECT_LE(took.count(), 0.30 + slack_seconds());
    EXPECT_EQ(used.take_bytes(), 5 * sizeof value);
    EXPECT_EQ(used.take_bytes(), 0u);
    if (context.rank() == 1) {
      EXPECT_GE(took.count(), 0.149);
      EXPECT_LE(used.take_seconds(), 0.05 + slack_seconds());
    } else if (times_are_strict()) {
      EXPECT_GE(used.take_seconds(), 0.08);  // it waits for the other one
    }
  });
}

}  // namespace
}  // namespace trireme
