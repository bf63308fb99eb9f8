// Times over emulated links against α + nβ. Nothing may be faster, whatever else the machine does: times are
// taken from the first rank's begin to the last one's end. Nothing may be much slower either; that is judged
// on a quiet machine (support/times.h).
#include "trireme/comm/transport/emulated/emulated.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "tests/support/times.h"
#include "trireme/comm/context.h"

namespace trireme::comm {
namespace {

// From the moment at which the first rank begins `body(group)` to the one at which the last one ends it; the
// least of three rounds, because another program may have a round's cores.
template <typename Body>
double seconds_of(int ranks, const EmulatedLink& link, const Body& body) {
  double least = 1e9;
  for (int round = 0; round < 3; ++round) {
    std::mutex mutex;
    Clock::time_point first = Clock::time_point::max(), last = Clock::time_point::min();
    run_rank_threads(
        ranks,
        [&](Context& context) {
          Group world = context.world();
          body(world);  // makes what is made once
          world.barrier().wait();
          const Clock::time_point begin = Clock::now();
          body(world);
          const Clock::time_point end = Clock::now();
          const std::lock_guard lock(mutex);
          first = std::min(first, begin);
          last = std::max(last, end);
        },
        60, link);
    least = std::min(least, std::chrono::duration<double>(last - first).count());
  }
  return least;
}

TEST(Emulated, AMessageTakesLatencyAndBytes) {
  const EmulatedLink link = parse_emulated_link("latency=30ms,bandwidth=80Mbit");
  std::vector<std::byte> data(400'000);  // 40 ms at 10 MB/s
  const double seconds = seconds_of(2, link, [&](Group& world) {
    // There and back, so that no rank measures what the other has waited.
    std::vector<std::byte> own(data.size());
    const auto count = static_cast<int64_t>(own.size());
    for (const int from : {0, 1}) {
      if (world.rank() == from)
        world.send(own.data(), count, DType::u8, 1 - from, 0).wait();
      else
        world.receive(own.data(), count, DType::u8, from, 0).wait();
    }
  });
  EXPECT_GE(seconds, 2 * 0.07);
  EXPECT_LE(seconds, 2 * 0.07 * 1.6 + slack_seconds());
}

TEST(Emulated, ARingTakesWhatItsFormulaSays) {
  const EmulatedLink link = parse_emulated_link("latency=10ms,bandwidth=80Mbit");
  constexpr int kRanks = 4;
  constexpr int64_t kElements = 100'000;  // 400 kB
  const double seconds = seconds_of(kRanks, link, [&](Group& world) {
    std::vector<float> own(kElements, 1.0f);
    world.all_reduce(own.data(), kElements, DType::f32, ReduceOp::sum, {.algorithm = Algorithm::ring}).wait();
    EXPECT_EQ(own.front(), 4.0f);
    EXPECT_EQ(own.back(), 4.0f);
  });
  const double alpha = 2 * (kRanks - 1) * 0.010, beta = 2.0 * (kRanks - 1) / kRanks * 4 * kElements / 10e6;
  EXPECT_GE(seconds, alpha + beta);
  EXPECT_LE(seconds, 1.5 * (alpha + beta) + slack_seconds());
}

// Several messages to one rank come one after the other, whoever sends them.
TEST(Emulated, RanksShareTheWireOfAReceiver) {
  const EmulatedLink link = parse_emulated_link("latency=1ms,bandwidth=80Mbit");
  const double seconds = seconds_of(4, link, [&](Group& world) {
    std::vector<std::byte> own(4 * 100'000);  // of each rank a part, 10 ms long
    world.gather(own.data(), static_cast<int64_t>(own.size()), DType::u8, 0, {.algorithm = Algorithm::naive})
        .wait();
  });
  EXPECT_GE(seconds, 0.031);
  EXPECT_LE(seconds, 0.060 + slack_seconds());
}

// Rank 2 sends to rank 1 first, so that what it has for rank 0 begins to arrive when the message of rank 1,
// which is sent later, is through.
TEST(Emulated, AMessageThatIsStillToComeHoldsUpNoOther) {
  const EmulatedLink link = parse_emulated_link("latency=1ms,bandwidth=80Mbit");
  const double seconds = seconds_of(3, link, [&](Group& world) {
    std::vector<std::byte> one(2'000'000), other(one.size());  // 200 ms long
    const auto count = static_cast<int64_t>(one.size());
    std::vector<Handle> under_way;
    if (world.rank() == 0) {
      under_way.push_back(world.receive(one.data(), count, DType::u8, 1));
      under_way.push_back(world.receive(other.data(), count, DType::u8, 2));
    } else if (world.rank() == 1) {
      under_way.push_back(world.receive(one.data(), count, DType::u8, 2));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      under_way.push_back(world.send(other.data(), count, DType::u8, 0));
    } else {
      under_way.push_back(world.send(one.data(), count, DType::u8, 1));
      under_way.push_back(world.send(other.data(), count, DType::u8, 0));
    }
    under_way.clear();  // waits
  });
  EXPECT_GE(seconds, 0.4);
  EXPECT_LE(seconds, 0.5 + slack_seconds());
}

// What travels while ranks compute costs them nothing.
TEST(Emulated, MessagesTravelWhileRanksAreBusy) {
  const EmulatedLink link = parse_emulated_link("latency=40ms");
  const double seconds = seconds_of(2, link, [&](Group& world) {
    float value = 1;
    Handle sum = world.all_reduce(&value, 1, DType::f32, ReduceOp::sum, {.algorithm = Algorithm::naive});
    std::this_thread::sleep_for(std::chrono::milliseconds(60));  // calls nothing of the transport
    sum.wait();
    EXPECT_EQ(value, 2.0f);
  });
  EXPECT_LE(seconds, 0.09 + slack_seconds());
}

TEST(Emulated, JitterDelaysAndKeepsTheOrder) {
  const EmulatedLink link = parse_emulated_link("latency=1ms,jitter=10ms");
  const double seconds = seconds_of(2, link, [&](Group& world) {
    std::vector<Handle> under_way;
    std::vector<int32_t> values(8, -1);
    for (int32_t i = 0; i < 8; ++i) {
      if (world.rank() == 0) values[i] = i;
      under_way.push_back(world.rank() == 0 ? world.send(&values[i], 1, DType::i32, 1)
                                            : world.receive(&values[i], 1, DType::i32, 0));
    }
    under_way.clear();  // waits
    EXPECT_THAT(values, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
    for (int turn = 0; turn < 10; ++turn) {
      int32_t ball = turn;
      if (world.rank() == turn % 2)
        world.send(&ball, 1, DType::i32, 1 - world.rank()).wait();
      else
        world.receive(&ball, 1, DType::i32, 1 - world.rank()).wait();
    }
  });
  // Of ten turns each is late by 5 ms on the average.
  EXPECT_GE(seconds, 0.035);
  EXPECT_LE(seconds, 0.13 + slack_seconds());
}

TEST(Emulated, CountsPayloadAloneAndSaysWhatItIs) {
  run_rank_threads(
      2,
      [](Context& context) {
        EXPECT_THAT(context.summary(), testing::HasSubstr("transport inproc"));
        Group world = context.world();
        std::vector<float> data(1000, 1.0f);
        world.all_reduce(data.data(), 1000, DType::f32, ReduceOp::sum, {.algorithm = Algorithm::ring}).wait();
        EXPECT_EQ(context.transport().counters().bytes_sent, 4000u);
        EXPECT_EQ(context.transport().counters().bytes_received, 4000u);
        EXPECT_EQ(context.transport().native(7, std::vector<int>{0, 1}), nullptr);
      },
      60, parse_emulated_link("cluster"));
}

}  // namespace
}  // namespace trireme::comm
