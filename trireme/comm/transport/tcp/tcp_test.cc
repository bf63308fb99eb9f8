// Messages between real processes over real sockets. What all transports promise is in the conformance suite;
// here is what TCP makes hard: streams cut anywhere, buffers that fill up, and order.
#include "trireme/comm/transport/tcp/tcp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <thread>

#include "trireme/comm/transport/tcp/test_job.h"

namespace trireme::comm {
namespace {

using testing::Each;

constexpr size_t kSizes[] = {0,  1,    3,    7,    8,     9,      23,      24,
                             25, 1000, 8191, 8193, 65537, 262143, 1 << 20, (5 << 20) + 3};

TEST(Tcp, EverySizeBothWaysAtOnce) {
  TestJob job(2, [](Transport& transport) -> std::string {
    const int other = 1 - transport.rank();
    uint64_t promised = 0;
    for (size_t size : kSizes) {
      std::vector<uint8_t> mine(size), got(size, 0xee);
      for (size_t i = 0; i < size; ++i) mine[i] = static_cast<uint8_t>(i * 7 + size + transport.rank());
      Request send, receive;
      transport.send(other, {size, 5}, bytes_of(mine), send);
      transport.receive(other, {size, 5}, writable_bytes_of(got), nullptr, receive);
      wait(transport, send);
      wait(transport, receive);
      promised += size;
      for (size_t i = 0; i < size; ++i) {
        if (got[i] != static_cast<uint8_t>(i * 7 + size + other))
          return fmt::format("byte {} of {}", i, size);
      }
    }
    const Counters& counters = transport.counters();
    if (counters.bytes_sent != promised || counters.bytes_received != promised) return "counted wrong";
    return counters.messages_sent == std::size(kSizes) ? "good" : "messages counted wrong";
  });
  EXPECT_THAT(job.reports(), Each("good"));
}

// Odd sizes in front put the numbers at every offset of the stream; combining must neither care nor cut one.
TEST(Tcp, CombinesWhatComesAtAnyOffset) {
  TestJob job(2, [](Transport& transport) -> std::string {
    const Combine add = combine_function(DType::f32, ReduceOp::sum);
    const int other = 1 - transport.rank();
    for (size_t odd = 0; odd < 17; ++odd) {
      for (size_t count : {1u, 33u, 100'000u, 400'001u}) {
        std::vector<uint8_t> filler(odd), filler_got(odd);
        const std::vector<float> mine = numbers(count, transport.rank(), static_cast<int>(odd));
        std::vector<float> sum = mine;
        Request requests[4];
        transport.send(other, {1, 0}, bytes_of(filler), requests[0]);
        transport.send(other, {2, 0}, bytes_of(mine), requests[1]);
        transport.receive(other, {2, 0}, writable_bytes_of(sum), add, requests[2]);
        transport.receive(other, {1, 0}, writable_bytes_of(filler_got), nullptr, requests[3]);
        for (const Request& request : requests) wait(transport, request);
        const std::vector<float> theirs = numbers(count, other, static_cast<int>(odd));
        for (size_t i = 0; i < count; ++i) {
          if (sum[i] != mine[i] + theirs[i]) return fmt::format("number {} of {} after {}", i, count, odd);
        }
      }
    }
    return "good";
  });
  EXPECT_THAT(job.reports(), Each("good"));
}

// Rank 0 sends under two streams; rank 1 posts late, in parts while a message is under way, and the second
// stream first.
TEST(Tcp, MessagesWaitForTheirReceives) {
  TestJob job(2, [](Transport& transport) -> std::string {
    const Combine add = combine_function(DType::f32, ReduceOp::sum);
    constexpr int kMessages = 40;
    constexpr size_t kCount = 70'001;
    if (transport.rank() == 0) {
      std::vector<std::vector<float>> sent;
      std::deque<Request> requests;
      for (int i = 0; i < 2 * kMessages; ++i) {
        sent.push_back(numbers(kCount, 0, i));
        transport.send(1, {static_cast<uint64_t>(i % 2), 9}, bytes_of(sent.back()), requests.emplace_back());
      }
      for (const Request& request : requests) wait(transport, request);
      std::vector<float> end(1);
      Request last;
      transport.receive(1, {7, 0}, writable_bytes_of(end), nullptr, last);
      wait(transport, last);
      return "good";
    }
    for (int i = 0; i < 50; ++i) {
      transport.progress();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    for (int stream : {1, 0}) {
      for (int i = 0; i < kMessages; ++i) {
        std::vector<float> got(kCount, 1.0f);
        Request request;
        transport.receive(0, {static_cast<uint64_t>(stream), 9}, writable_bytes_of(got),
                          i % 2 ? add : nullptr, request);
        wait(transport, request);
        std::vector<float> expected = numbers(kCount, 0, 2 * i + stream);
        for (float& value : expected) value += i % 2 ? 1.0f : 0.0f;
        if (got != expected) return fmt::format("message {} of stream {}", i, stream);
      }
    }
    std::vector<float> end(1);
    Request last;
    transport.send(0, {7, 0}, bytes_of(end), last);
    wait(transport, last);
    return "good";
  });
  EXPECT_THAT(job.reports(), Each("good"));
}

TEST(Tcp, ManySmallMessagesInFlightFromAllToAll) {
  TestJob job(5, [](Transport& transport) -> std::string {
    constexpr size_t kMessages = 500;
    std::deque<Request> requests;
    std::deque<std::vector<uint64_t>> memory;
    const auto make = [&](int from, int to, size_t i) {
      return std::vector<uint64_t>(i % 13, static_cast<uint64_t>(from) * 1'000'000 + to * 1000 + i);
    };
    for (size_t i = 0; i < kMessages; ++i) {
      for (int other = 0; other < transport.ranks(); ++other) {
        if (other == transport.rank()) continue;
        memory.push_back(make(transport.rank(), other, i));
        transport.send(other, {i / 50, 3}, bytes_of(memory.back()), requests.emplace_back());
      }
    }
    for (size_t i = 0; i < kMessages; ++i) {
      for (int other = 0; other < transport.ranks(); ++other) {
        if (other == transport.rank()) continue;
        std::vector<uint64_t> got(i % 13);
        Request request;
        transport.receive(other, {i / 50, 3}, writable_bytes_of(got), nullptr, request);
        wait(transport, request);
        if (got != make(other, transport.rank(), i)) return fmt::format("message {} from {}", i, other);
      }
    }
    for (const Request& request : requests) wait(transport, request);
    return "good";
  });
  EXPECT_THAT(job.reports(), Each("good"));
}

// More than the budget and the sockets hold: the sender is held back, not failed, and the receiver's memory
// does not grow with what is sent.
TEST(Tcp, SenderIsHeldBackBeyondTheBudget) {
  constexpr size_t kMessages = 300, kBytes = 1 << 20;
  TestJob job(2, [](Transport& transport) -> std::string {
    std::vector<uint8_t> memory(kBytes, 1);
    Request ready, request;
    if (transport.rank() == 0) {
      std::deque<Request> sends;
      for (size_t i = 0; i < kMessages; ++i)
        transport.send(1, {1, 0}, bytes_of(memory), sends.emplace_back());
      const auto until = Clock::now() + std::chrono::milliseconds(500);
      while (Clock::now() < until) {
        if (!transport.progress()) transport.idle(until);
      }
      if (std::all_of(sends.begin(), sends.end(), [](const Request& r) { return r.done; })) return "not held";
      for (const Request& send : sends) wait(transport, send);
      transport.receive(1, {2, 0}, {}, nullptr, request);
      wait(transport, request);
      return "good";
    }
    const auto until = Clock::now() + std::chrono::seconds(1);
    while (Clock::now() < until) {
      if (!transport.progress()) transport.idle(until);
    }
    for (size_t i = 0; i < kMessages; ++i) {
      transport.receive(0, {1, 0}, writable_bytes_of(memory), nullptr, request);
      wait(transport, request);
    }
    transport.send(0, {2, 0}, {}, request);
    wait(transport, request);
    return "good";
  });
  EXPECT_THAT(job.reports(), Each("good"));
}

// Every message comes before its receive, with another behind it that is waited for first. Two of them are
// more than may be kept: what is received must make room, or the second holds up all that follows.
TEST(Tcp, ReceivedMessagesMakeRoomForOthers) {
  TestPlace place;
  TestRanks processes(2, [&](int rank) -> std::string {
    TcpRendezvous meeting(place.rendezvous(rank, 2));
    TcpTransport transport(meeting, {.secret = place.secret, .unexpected_bytes = 64 << 10});
    for (int i = 0; i < 20; ++i) {
      std::vector<float> numbers_got(10'000);
      const std::vector<float> mine = numbers(10'000, 0, i);
      Request early, first;
      if (rank == 0) {
        transport.send(1, {1, 0}, bytes_of(mine), early);
        transport.send(1, {2, 0}, {}, first);
        wait(transport, early);
        wait(transport, first);
      } else {
        transport.receive(0, {2, 0}, {}, nullptr, first);
        wait(transport, first);
        transport.receive(0, {1, 0}, writable_bytes_of(numbers_got), nullptr, early);
        if (!early.done) return fmt::format("message {} was not kept", i);
        if (numbers_got != mine) return fmt::format("message {} is wrong", i);
      }
    }
    return "good";
  });
  EXPECT_THAT(processes.reports(), Each("good"));
}

TEST(Tcp, SleepsWhenNothingHappens) {
  TestJob job(2, [](Transport& transport) -> std::string {
    Request request;
    if (transport.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    const clock_t before = clock();
    if (transport.rank() == 1) transport.send(0, {1, 0}, {}, request);
    if (transport.rank() == 0) transport.receive(1, {1, 0}, {}, nullptr, request);
    wait(transport, request);
    const double busy_seconds = static_cast<double>(clock() - before) / CLOCKS_PER_SEC;
    return busy_seconds < 0.1 ? "good" : fmt::format("busy for {} s", busy_seconds);
  });
  EXPECT_THAT(job.reports(), Each("good"));
}

}  // namespace
}  // namespace trireme::comm
