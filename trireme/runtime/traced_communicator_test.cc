// What a trace is told of collectives and messages, and that a paused one is told nothing.
#include "trireme/runtime/traced_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/comm/context.h"
#include "trireme/runtime/mesh_communicator.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;

struct TracedRank {
  TracedRank(comm::Context& context, Trace::Begins begins)
      : trace(Trace::Clock::now(), begins),
        inner(Mesh({{"data", 2}}), context),
        communicator(inner, trace, context.rank()) {}

  std::byte* data() { return reinterpret_cast<std::byte*>(&value); }
  void start_sum() { communicator.start({CollectiveKind::kAllReduce, "data", data(), 1, DType::f32}); }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const TraceEvent& event : trace.events())
      names.push_back(fmt::format("{}: {}", name(event.kind), event.name));
    return names;
  }

  Trace trace;
  MeshCommunicator inner;
  TracedCommunicator communicator;
  float value = 1;
};

TEST(TracedCommunicator, TellsOfWhatBeginsWhileTheTraceRecords) {
  comm::run_rank_threads(2, [](comm::Context& context) {
    TracedRank rank(context, Trace::Begins::kPaused);
    rank.start_sum();
    rank.communicator.wait(rank.data());
    rank.start_sum();
    rank.trace.record(true);
    rank.communicator.wait(rank.data());  // began before
    EXPECT_THAT(rank.names(), ElementsAre());
    rank.start_sum();
    rank.communicator.wait(rank.data());
    EXPECT_THAT(rank.names(), ElementsAre("wait: wait: all_reduce data", "collective: all_reduce data"));
    const std::vector<TraceEvent>& events = rank.trace.events();
    EXPECT_EQ(events[1].bytes, 4);
    EXPECT_LE(events[1].begin, events[0].begin);
    EXPECT_EQ(events[1].end, events[0].end);
    rank.start_sum();
    rank.trace.record(false);
    rank.communicator.wait(rank.data());  // ends too late
    EXPECT_EQ(events.size(), 2u);
  });
}

// Both ends of a message have one number, however many there were before the trace began.
TEST(TracedCommunicator, CountsMessagesWhileItIsPaused) {
  comm::run_rank_threads(2, [](comm::Context& context) {
    // One of the ranks has recorded all the time.
    TracedRank rank(context, context.rank() == 0 ? Trace::Begins::kPaused : Trace::Begins::kRecording);
    const auto message = [&] {
      if (context.rank() == 0) {
        rank.communicator.start_send(1, rank.data(), 4, 7);
      } else {
        rank.communicator.start_receive(0, rank.data(), 4, 7);
      }
      rank.communicator.wait(rank.data());
    };
    message();
    rank.trace.record(true);
    message();
    const TraceEvent& last = rank.trace.events().back();
    EXPECT_EQ(last.name, context.rank() == 0 ? "send to 1" : "receive from 0");
    EXPECT_EQ(last.kind, TraceEvent::Kind::kMessage);
    EXPECT_EQ(last.message, 4096 * (1 + 4096 * int64_t{1}));  // the second from 0 to 1
  });
}

}  // namespace
}  // namespace trireme
