// The making of the mesh while strangers are at every door.
#include "trireme/comm/transport/tcp/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <memory>
#include <thread>

#include "tests/support/times.h"
#include "trireme/base/text.h"
#include "trireme/comm/transport/tcp/test_job.h"
#include "trireme/comm/wire/test_strangers.h"

namespace trireme::comm {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

// Lets strangers loose on all addresses as soon as they are known; the last rank gets to know them later, so
// that the others have to stand it for a while.
class BesetRendezvous final : public Rendezvous {
 public:
  explicit BesetRendezvous(Rendezvous& real) : real_(real) {}
  int rank() const override { return real_.rank(); }
  int ranks() const override { return real_.ranks(); }
  std::vector<std::string> exchange(std::string_view what, std::string mine) override {
    auto all = real_.exchange(what, std::move(mine));
    if (what != "tcp addresses") return all;
    for (const std::string& line : all) addresses.push_back(split(line, ' ')[0]);
    if (rank() == 0) {
      for (const std::string& address : addresses) {
        strangers.push_back(std::make_unique<TestStrangers>(address));
      }
    }
    if (rank() == ranks() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return all;
  }

  std::vector<std::string> addresses;
  std::vector<std::unique_ptr<TestStrangers>> strangers;

 private:
  Rendezvous& real_;
};

TEST(Mesh, StrangersNeitherJoinNorDelayAndFindClosedDoorsAfterwards) {
  TestPlace place;
  constexpr int kRanks = 3;
  TestRanks processes(kRanks, [&](int rank) -> std::string {
    TcpRendezvous meeting(place.rendezvous(rank, kRanks));
    BesetRendezvous beset(meeting);
    const auto begin = Clock::now();
    TcpTransport transport(beset, {.secret = place.secret, .timeout_seconds = place.timeout_seconds});
    const std::chrono::duration<double> taken = Clock::now() - begin;
    if (taken.count() > 0.5 + slack_seconds()) return fmt::format("it took {} s", taken.count());
    for (int i = 0; i < 50; ++i) {
      for (int other = 0; other < kRanks; ++other) {
        if (other == rank) continue;
        std::vector<float> mine = numbers(5000, rank, i), got(5000);
        Request send, receive;
        transport.send(other, {static_cast<uint64_t>(i), 0}, bytes_of(mine), send);
        transport.receive(other, {static_cast<uint64_t>(i), 0}, writable_bytes_of(got), nullptr, receive);
        wait(transport, send);
        wait(transport, receive);
        if (got != numbers(5000, other, i)) return "wrong";
      }
    }
    for (const std::string& address : beset.addresses) {
      const Descriptor late = start_connect(address, 0);
      pollfd entry{late.get(), POLLOUT, 0};
      if (late && (poll(&entry, 1, 1000) != 1 || connect_error(late.get()) != ECONNREFUSED)) return "open";
    }
    return "good";
  });
  EXPECT_THAT(processes.reports(), Each("good"));
}

// A rank that dies between the rendezvous and its connections is missed at once, and no firewall is blamed.
TEST(Mesh, ARankThatEndsMeanwhileIsNamedAtOnce) {
  TestPlace place;
  place.timeout_seconds = 60;
  TestRanks processes(4, [&](int rank) -> std::string {
    TcpRendezvous meeting(place.rendezvous(rank, 4));
    if (rank == 2) {
      const Descriptor listener = listen_on("127.0.0.1:0");
      meeting.exchange("tcp addresses", local_address(listener.get()) + " host");
      return "gone";
    }
    const auto begin = Clock::now();
    try {
      TcpTransport transport(meeting, {.secret = place.secret, .timeout_seconds = place.timeout_seconds});
    } catch (const Error& error) {
      const std::chrono::duration<double> taken = Clock::now() - begin;
      return fmt::format("{}: {}", taken.count() < 2 + slack_seconds() ? "soon" : "late", error.what());
    }
    return "connected";
  });
  const auto reports = processes.reports();
  EXPECT_EQ(reports[2], "gone");
  for (const int rank : {0, 1, 3}) {
    EXPECT_THAT(reports[rank],
                AllOf(HasSubstr("soon: "), HasSubstr("rank 2 has ended"), Not(HasSubstr("firewall"))));
  }
}

TEST(Mesh, AnyAddressIsRefused) {
  TestPlace place;
  for (const std::string host : {"0.0.0.0", "::"}) {
    TestRanks processes(1, [&](int) -> std::string {
      TcpRendezvous meeting(place.rendezvous(0, 1));
      TcpTransport transport(meeting, {.secret = place.secret, .host = host});
      return "good";
    });
    EXPECT_THAT(processes.reports(), Each(HasSubstr("give the one address")));
  }
}

TEST(Mesh, WorksOverIpv6) {
  TestPlace place;
  TestRanks processes(2, [&](int rank) -> std::string {
    TcpRendezvous meeting(place.rendezvous(rank, 2));
    TcpTransport transport(meeting, {.secret = place.secret, .host = "::1"});
    Request send, receive;
    transport.send(1 - rank, {1, 0}, {}, send);
    transport.receive(1 - rank, {1, 0}, {}, nullptr, receive);
    wait(transport, send);
    wait(transport, receive);
    return "good";
  });
  const auto reports = processes.reports();
  if (reports[0].find("cannot listen on [::1]") != std::string::npos) GTEST_SKIP() << "no IPv6 here";
  EXPECT_THAT(reports, Each("good"));
}

// A rank with another secret, which got into the rendezvous by other means, stays outside of the mesh.
TEST(Mesh, WrongSecretIsNotConnected) {
  TestPlace place;
  place.timeout_seconds = 2;
  TestRanks processes(2, [&](int rank) -> std::string {
    TcpRendezvous meeting(place.rendezvous(rank, 2));
    const Secret secret = rank == 0 ? place.secret : Secret::generate();
    TcpTransport transport(meeting, {.secret = secret, .timeout_seconds = 2});
    return "good";
  });
  const auto reports = processes.reports();
  EXPECT_THAT(reports[0],
              AllOf(AnyOf(HasSubstr("rank 1 (it did not connect)"), HasSubstr("rank 1 has ended")),
                    HasSubstr("did not prove")));
  EXPECT_THAT(reports[1], HasSubstr("does not know this job's secret"));
}

}  // namespace
}  // namespace trireme::comm
