// Ranks that are killed, stopped, leave, or are at odds: what the others hear, and how soon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <atomic>
#include <deque>
#include <functional>
#include <thread>

#include "tests/support/times.h"
#include "trireme/comm/collective/call.h"
#include "trireme/comm/group.h"
#include "trireme/comm/transport/tcp/test_job.h"
#include "trireme/comm/wire/test_strangers.h"

namespace trireme::comm {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

// When a rank of the test was killed, in memory that all its processes share.
class Moment {
 public:
  Moment()
      : nanoseconds_(static_cast<std::atomic<int64_t>*>(
            mmap(nullptr, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~Moment() { munmap(nanoseconds_, sizeof(int64_t)); }
  void now() { nanoseconds_->store(Clock::now().time_since_epoch().count()); }
  Clock::time_point get() const { return Clock::time_point(Clock::duration(nanoseconds_->load())); }

 private:
  std::atomic<int64_t>* nanoseconds_;
};

// Waits for a message that never comes; the report has the failure, the rank it names, and whether it came
// within a second of what caused it; the timeout is 20 s.
std::string wait_in_vain(Transport& transport, int from, const Moment* cause = nullptr) {
  std::vector<float> memory(1000);
  Request request;
  const auto begin = Clock::now();
  try {
    transport.receive(from, {make_stream(0, 1), 0}, writable_bytes_of(memory), nullptr, request);
    wait(transport, request);
  } catch (const PeerError& error) {
    const auto since = cause != nullptr ? std::max(cause->get(), begin) : begin;
    const double seconds = std::chrono::duration<double>(Clock::now() - since).count();
    bool again = false;
    try {
      transport.progress();
    } catch (const PeerError& same) {
      again = std::string(same.what()) == error.what();
    }
    return fmt::format("{} rank {} {} {}: {}", static_cast<int>(error.failure()), error.rank(),
                       seconds < 1 + slack_seconds() ? "soon" : "late", again ? "for good" : "once",
                       error.what());
  }
  return "came";
}

std::string prefix(Failure failure, int rank) {
  return fmt::format("{} rank {} soon for good: ", static_cast<int>(failure), rank);
}

TEST(TcpFailure, KilledRankIsNamedByAllWhoeverTheyWaitFor) {
  for (int victim : {0, 2, 3}) {
    Moment killed;
    TestJob job(4, [&](Transport& transport) -> std::string {
      if (transport.rank() == victim) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        killed.now();
        raise(SIGKILL);
      }
      return wait_in_vain(transport, (transport.rank() + 1) % 4, &killed);
    });
    const auto reports = job.reports();
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == victim) continue;
      EXPECT_THAT(reports[rank], AllOf(StartsWith(prefix(Failure::died, victim)),
                                       HasSubstr(fmt::format("rank {} at 127.0.0.1:", victim))));
    }
  }
}

TEST(TcpFailure, KilledInTheMiddleOfBigMessages) {
  Moment killed;
  TestJob job(3, [&](Transport& transport) -> std::string {
    constexpr size_t kMessages = 16;
    std::vector<uint8_t> out(4 << 20), in(4 << 20);
    std::deque<Request> requests;
    for (int other = 0; other < 3; ++other) {
      if (other == transport.rank()) continue;
      for (size_t i = 0; i < kMessages; ++i) {
        transport.send(other, {1, 0}, bytes_of(out), requests.emplace_back());
        transport.receive(other, {1, 0}, writable_bytes_of(in), nullptr, requests.emplace_back());
      }
    }
    if (transport.rank() == 1) {
      for (int i = 0; i < 20; ++i) transport.progress();
      killed.now();
      raise(SIGKILL);
    }
    return wait_in_vain(transport, 1, &killed);
  });
  const auto reports = job.reports();
  EXPECT_THAT(reports[0], StartsWith(prefix(Failure::died, 1)));
  EXPECT_THAT(reports[2], StartsWith(prefix(Failure::died, 1)));
}

// The connected sockets of this process.
std::vector<int> connections() {
  std::vector<int> found;
  for (int descriptor = 0; descriptor < 1024; ++descriptor) {
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &length) == 0 &&
        peer.ss_family == AF_INET) {
      found.push_back(descriptor);
    }
  }
  return found;
}

// What is sent has half a second to be acknowledged, where a job would wait for twice its timeout.
void expect_answers_soon() {
  const int milliseconds = 500;
  for (const int socket : connections()) {
    setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
  }
}

// From now on nothing reaches this process, as if the cable were cut. False where the system has no filters.
bool cut_cable() {
  sock_filter drop = {BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog filter = {1, &drop};
  for (const int socket : connections()) {
    if (setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0) return false;
  }
  return true;
}

// Nobody died, and the error must not send people to look for a dead process.
TEST(TcpFailure, ACutCableIsNotADeath) {
  TestJob job(2, [](Transport& transport) -> std::string {
    expect_answers_soon();
    Request request;
    std::vector<float> numbers_sent(100);
    if (transport.rank() == 1) {
      if (!cut_cable()) return "no filters here";
      transport.send(0, {7, 0}, bytes_of(numbers_sent), request);
    } else {
      transport.receive(1, {7, 0}, writable_bytes_of(numbers_sent), nullptr, request);
      wait(transport, request);
      transport.send(1, {8, 0}, bytes_of(numbers_sent), request);
    }
    return wait_in_vain(transport, 1 - transport.rank());
  });
  const auto reports = job.reports();
  if (reports[1] == "no filters here") GTEST_SKIP() << "sockets take no filters here";
  for (int rank : {0, 1}) {
    EXPECT_THAT(reports[rank],
                AllOf(StartsWith(fmt::format("{} rank {} ", static_cast<int>(Failure::cut_off), 1 - rank)),
                      HasSubstr("is cut off: Connection timed out")));
  }
}

TEST(TcpFailure, StoppedForAWhileIsNoError) {
  TestJob job(2, [](Transport& transport) -> std::string {
    const int other = 1 - transport.rank();
    for (int i = 0; i < 200; ++i) {
      std::vector<float> mine = numbers(20'000, transport.rank(), i), got(20'000);
      Request send, receive;
      transport.send(other, {static_cast<uint64_t>(i), 0}, bytes_of(mine), send);
      transport.receive(other, {static_cast<uint64_t>(i), 0}, writable_bytes_of(got), nullptr, receive);
      wait(transport, send);
      wait(transport, receive);
      if (got != numbers(20'000, other, i)) return "wrong";
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return "good";
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  kill(job.processes.process(1), SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(2));
  kill(job.processes.process(1), SIGCONT);
  EXPECT_THAT(job.reports(), Each("good"));
}

TEST(TcpFailure, LeavingDisturbsOnlyThoseWhoWaitForIt) {
  TestJob job(4, [](Transport& transport) -> std::string {
    if (transport.rank() == 3) {
      Request request;
      transport.send(0, {5, 0}, {}, request);
      wait(transport, request);
      return "left";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    Request request;
    if (transport.rank() == 0) {  // what it sent before it left is there
      transport.receive(3, {5, 0}, {}, nullptr, request);
      wait(transport, request);
      transport.send(1, {6, 0}, {}, request);
    } else if (transport.rank() == 1) {
      transport.receive(0, {6, 0}, {}, nullptr, request);
    }
    wait(transport, request);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return wait_in_vain(transport, transport.rank() == 0 ? 3 : 0);
  });
  const auto reports = job.reports();
  EXPECT_EQ(reports[3], "left");
  for (int rank : {0, 1, 2}) {
    EXPECT_THAT(reports[rank],
                AllOf(StartsWith(prefix(Failure::died, 3)), HasSubstr("rank 3"), HasSubstr("left")));
  }
}

// What is under way with it, and what is begun, fails; the others go on, whoever waits for whom.
TEST(TcpFailure, ALossThatIsBorneIsThatRanksAlone) {
  for (const bool killed : {true, false}) {
    TestJob job(4, [&](Transport& transport) -> std::string {
      const std::vector<int> expendable = {1, 2, 3};
      EXPECT_TRUE(transport.bear_loss_of(expendable));
      Group group(transport, 1, {0, 1, 2, 3});
      std::vector<float> memory(100'000, static_cast<float>(transport.rank()));
      const auto count = std::ssize(memory);
      if (transport.rank() == 2) {
        group.receive(memory.data(), count, DType::f32, 0).wait();  // all are there
        if (killed) raise(SIGKILL);
        return "left";
      }
      if (transport.rank() != 0) {
        for (int i = 0; i < 20; ++i) {
          group.send(memory.data(), count, DType::f32, 0).wait();
          group.receive(memory.data(), count, DType::f32, 0).wait();
        }
        return "good";
      }
      group.send(memory.data(), count, DType::f32, 2).wait();
      std::vector<float> never(memory.size());
      Handle lost = group.receive(never.data(), count, DType::f32, 2);
      for (int i = 0; i < 20; ++i) {
        for (const int from : {1, 3}) {
          group.receive(memory.data(), count, DType::f32, from).wait();
          if (memory[0] != static_cast<float>(i == 0 ? from : 7)) return "wrong";
          memory.assign(memory.size(), 7);
          group.send(memory.data(), count, DType::f32, from).wait();
        }
      }
      std::string told;
      for (const auto& call : std::initializer_list<std::function<void()>>{
               [&] { lost.wait(); }, [&] { lost.done(); },
               [&] { group.send(memory.data(), count, DType::f32, 2); }}) {
        try {
          call();
          return "no error";
        } catch (const PeerError& error) {
          if (error.rank() != 2) return error.what();
          told = error.what();
        }
      }
      return transport.lost(2) != nullptr && transport.lost(1) == nullptr ? told : "not noted";
    });
    const auto reports = job.reports();
    EXPECT_THAT(reports[0], AllOf(HasSubstr("rank 2"), HasSubstr(killed ? "died" : "left"))) << killed;
    EXPECT_EQ(reports[1], "good");
    EXPECT_EQ(reports[3], "good");
  }
}

TEST(TcpFailure, SendingToOneThatLeftFails) {
  TestJob job(2, [](Transport& transport) -> std::string {
    if (transport.rank() == 1) return "left";
    const auto until = Clock::now() + std::chrono::milliseconds(300);
    while (Clock::now() < until) transport.progress();
    Request request;
    try {
      transport.send(1, {1, 0}, {}, request);
    } catch (const PeerError& error) {
      return error.what();
    }
    return "sent";
  });
  const auto reports = job.reports();
  EXPECT_THAT(reports[0], AllOf(HasSubstr("rank 1 at"), HasSubstr("left while rank 0 waited")));
}

TEST(TcpFailure, AbortReachesAllWithItsReason) {
  TestJob job(3, [](Transport& transport) -> std::string {
    if (transport.rank() == 1) {
      std::vector<uint8_t> big(32 << 20);  // under way to rank 2, which waits for something else
      Request request;
      transport.send(2, {8, 0}, bytes_of(big), request);
      transport.progress();
      transport.abort("the disk is full");
      try {
        transport.progress();
      } catch (const PeerError& error) {
        return error.what();
      }
      return "no error";
    }
    return wait_in_vain(transport, 1);
  });
  const auto reports = job.reports();
  EXPECT_THAT(reports, Each(HasSubstr("rank 1 ended the job: the disk is full")));
  EXPECT_THAT(reports[0], StartsWith(prefix(Failure::aborted, 1)));
  EXPECT_THAT(reports[2], StartsWith(prefix(Failure::aborted, 1)));
}

TEST(TcpFailure, DifferentCallsAreBothPrintedEverywhere) {
  const Call sum{.collective = Collective::all_reduce, .algorithm = Algorithm::ring, .count = 10};
  const Call bar{.collective = Collective::barrier, .algorithm = Algorithm::ring};
  // Late: the message comes before its receive. Early: after. Unasked: there is never a receive. Unsaid:
  // there is never a message.
  for (const std::string when : {"late", "early", "unasked", "unsaid"}) {
    TestJob job(3, [&](Transport& transport) -> std::string {
      Request request;
      std::vector<uint8_t> memory(10);
      const uint64_t call = transport.rank() == 0 ? sum.pack() : bar.pack();
      const uint64_t stream = make_stream(2, 17);
      if (transport.rank() == 1 && when == "late")
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
      if (transport.rank() == 0 && when == "early")
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
      try {
        transport.announce({stream, call});
        if (transport.rank() == 0 && when != "unsaid") {
          transport.send(1, {stream, call}, bytes_of(memory), request);
        }
        if (transport.rank() == 1 && when != "unasked") {
          transport.receive(0, {stream, call}, writable_bytes_of(memory), nullptr, request);
        }
        if (transport.rank() == 0 && when == "unsaid") {
          transport.receive(1, {stream, call}, writable_bytes_of(memory), nullptr, request);
        }
      } catch (const PeerError&) {
      }
      return wait_in_vain(transport, (transport.rank() + 1) % 3);
    });
    EXPECT_THAT(job.reports(),
                Each(AllOf(StartsWith(fmt::format("{} rank", static_cast<int>(Failure::mismatch))),
                           HasSubstr("rank 0: " + to_text(sum)), HasSubstr("rank 1: " + to_text(bar)))))
        << when;
  }
}

TEST(TcpFailure, MessageOfAnotherSizeIsAMismatch) {
  TestJob job(2, [](Transport& transport) -> std::string {
    std::vector<uint8_t> memory(transport.rank() == 0 ? 100 : 104);
    Request request;
    if (transport.rank() == 0) transport.send(1, {make_stream(0, 1), 0}, bytes_of(memory), request);
    return wait_in_vain(transport, 1 - transport.rank());
  });
  EXPECT_THAT(job.reports(), Each(HasSubstr("rank 0 sent 100 bytes where rank 1 expected 4000")));
}

TEST(TcpFailure, ArrivalsTellWhoIsWhere) {
  TestJob job(5, [](Transport& transport) -> std::string {
    const uint64_t stream = make_stream(1, 7);
    const auto stay = [&](int milliseconds) {
      const auto until = Clock::now() + std::chrono::milliseconds(milliseconds);
      while (Clock::now() < until) {
        if (!transport.progress()) transport.idle(until);
      }
      return "stayed";
    };
    switch (transport.rank()) {
      case 0: {
        transport.announce({stream, 3});
        stay(500);
        const int ranks[] = {4, 0, 1, 2, 3};
        std::string text;
        for (const Arrival arrival :
             transport.arrivals(stream, ranks, Clock::now() + std::chrono::milliseconds(500))) {
          text += std::to_string(static_cast<int>(arrival));
        }
        return text;
      }
      case 1:  // further on
        transport.announce({stream, 3});
        transport.announce({stream + 1, 3});
        return stay(3000);
      case 2:  // not there yet
        transport.announce({stream - 1, 3});
        return stay(3000);
      case 3:  // busy elsewhere
        std::this_thread::sleep_for(std::chrono::milliseconds(3000));
        return "stayed";
      default:
        return "left";
    }
  });
  const auto reports = job.reports();
  EXPECT_EQ(reports[0],
            fmt::format("{}{}{}{}{}", static_cast<int>(Arrival::gone), static_cast<int>(Arrival::arrived),
                        static_cast<int>(Arrival::arrived), static_cast<int>(Arrival::not_arrived),
                        static_cast<int>(Arrival::silent)));
  EXPECT_EQ(reports[1], "stayed");
}

// The survivors of generation 1 and a newcomer meet at the same place; who still is at generation 1 does not
// get in.
TEST(TcpFailure, SurvivorsAndANewcomerFormTheNextGeneration) {
  TestPlace place;
  const auto ring = [](Transport& transport) {
    const int ranks = transport.ranks(), next = (transport.rank() + 1) % ranks,
              last = (transport.rank() + ranks - 1) % ranks;
    std::vector<int> mine{transport.rank()}, got(1, -1);
    Request send, receive;
    transport.send(next, {1, 0}, bytes_of(mine), send);
    transport.receive(last, {1, 0}, writable_bytes_of(got), nullptr, receive);
    wait(transport, send);
    wait(transport, receive);
    return got[0] == last;
  };
  TestRanks processes(3, [&](int rank) -> std::string {
    {
      const auto transport = place.transport(rank, 3, 1);
      if (!ring(*transport)) return "generation 1 is wrong";
      if (rank == 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the others are through the ring
        raise(SIGKILL);
      }
      const std::string heard = wait_in_vain(*transport, rank == 0 ? 2 : 0);
      if (!heard.starts_with(prefix(Failure::died, 1))) return heard;
    }
    const auto transport = place.transport(rank, 3, 2);
    return ring(*transport) ? "good" : "generation 2 is wrong";
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(600));  // rank 1 is dead
  processes.add(1, [&](int) -> std::string {
    try {
      place.transport(1, 3, 1);
      return "an old one got in";
    } catch (const Error& error) {
      if (std::string(error.what()).find("generation 2") == std::string::npos) return error.what();
    }
    const auto transport = place.transport(1, 3, 2);
    return ring(*transport) ? "good" : "generation 2 is wrong";
  });
  const auto reports = processes.reports();
  EXPECT_EQ(reports[0], "good");
  EXPECT_EQ(reports[1], "signal 9");
  EXPECT_EQ(reports[2], "good");
  EXPECT_EQ(reports[3], "good");
}

}  // namespace
}  // namespace trireme::comm
