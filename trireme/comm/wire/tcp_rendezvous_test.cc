// The rendezvous with real processes and sockets: who meets, who is named when someone does not come, and
// that strangers at the door neither come in nor hold anybody up.
#include "trireme/comm/wire/tcp_rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/comm/transport/transport.h"
#include "trireme/comm/wire/acceptor.h"
#include "trireme/comm/wire/test_ranks.h"
#include "trireme/comm/wire/test_strangers.h"

namespace trireme::comm {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

// A place to meet that is free: bound here, handed to rank 0 as an inherited descriptor.
struct Place {
  Descriptor listener = listen_on("127.0.0.1:0");
  std::string address = local_address(listener.get());
  Secret secret = Secret::generate();

  TcpRendezvousOptions options(int rank, int ranks, double timeout_seconds = 20) {
    return {.secret = secret,
            .membership = {.job = "test", .rank = rank, .ranks = ranks},
            .address = address,
            .listener = rank == 0 ? dup(listener.get()) : -1,
            .timeout_seconds = timeout_seconds};
  }
};

std::string meet(TcpRendezvousOptions options) {
  TcpRendezvous rendezvous(std::move(options));
  const std::string mine = std::string(static_cast<size_t>(rendezvous.rank()) * 1000, 'x') + "end";
  std::vector<std::string> sizes;
  for (const std::string& text : rendezvous.exchange("first", mine))
    sizes.push_back(std::to_string(text.size()));
  const auto all = rendezvous.exchange("second", std::to_string(rendezvous.rank()));
  return trireme::join(sizes, ",") + " " + trireme::join(all, ",");
}

TEST(TcpRendezvous, EveryoneGetsEveryones) {
  for (int ranks : {1, 2, 5}) {
    Place place;
    TestRanks processes(ranks, [&](int rank) { return meet(place.options(rank, ranks)); });
    std::string expected = ranks == 1 ? "3 0" : ranks == 2 ? "3,1003 0,1" : "3,1003,2003,3003,4003 0,1,2,3,4";
    EXPECT_THAT(processes.reports(), Each(expected));
  }
}

TEST(TcpRendezvous, RankZeroMayComeLast) {
  Place place;
  const std::string address = place.address;
  place.listener.reset();  // nobody listens at first: connections are refused
  TestRanks processes(3, [&](int rank) {
    auto options = place.options(rank, 3);
    options.listener = -1;
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return meet(std::move(options));
  });
  EXPECT_THAT(processes.reports(), Each(HasSubstr("0,1,2")));
}

TEST(TcpRendezvous, TimeoutNamesWhoCameAndWhoDidNot) {
  Place place;
  TestRanks processes(0, {});
  for (int rank : {0, 1, 3}) {
    processes.add(rank, [&](int r) { return meet(place.options(r, 5, 1)); });
  }
  EXPECT_THAT(processes.reports(),
              Each(AllOf(HasSubstr("ranks 0, 1, 3 of 5 have come"), HasSubstr("ranks 2, 4 did not"))));
}

TEST(TcpRendezvous, RankThatStaysAwayFromAnExchangeIsNamed) {
  Place place;
  TestRanks processes(3, [&](int rank) -> std::string {
    TcpRendezvous rendezvous(place.options(rank, 3, 1));
    if (rank == 2) std::this_thread::sleep_for(std::chrono::seconds(3));
    if (rank != 2) rendezvous.exchange("ports", "");
    return "done";
  });
  const auto reports = processes.reports();
  EXPECT_THAT(reports[0], HasSubstr("'ports': rank 2 did not come within 1 s"));
  EXPECT_THAT(reports[1], HasSubstr("'ports': rank 2 did not come within 1 s"));
}

TEST(TcpRendezvous, DifferentExchangesAreToldApart) {
  Place place;
  TestRanks processes(3, [&](int rank) -> std::string {
    TcpRendezvous rendezvous(place.options(rank, 3));
    rendezvous.exchange(rank == 2 ? "apples" : "pears", "");
    return "done";
  });
  EXPECT_THAT(processes.reports(), Each(HasSubstr("rank 2 is at 'apples' and rank 0 at 'pears'")));
}

TEST(TcpRendezvous, ADeadRankEndsTheExchangeAtOnce) {
  Place place;
  TestRanks processes(3, [&](int rank) -> std::string {
    TcpRendezvous rendezvous(place.options(rank, 3, 30));
    if (rank == 1) raise(SIGKILL);
    rendezvous.exchange("ports", "");
    return "done";
  });
  const auto reports = processes.reports();
  EXPECT_THAT(reports[0], HasSubstr("rank 1 has ended its connection"));
  EXPECT_EQ(reports[1], "signal 9");
  EXPECT_THAT(reports[2], HasSubstr("rank 1 has ended its connection"));
}

TEST(TcpRendezvous, TwoWithOneRankAreRefusedOnBothSides) {
  Place place;
  TestRanks processes(0, {});
  for (int rank : {0, 1, 1}) {
    processes.add(rank, [&](int r) { return meet(place.options(r, 3, 20)); });
  }
  const auto reports = processes.reports();
  EXPECT_THAT(reports[0],
              AllOf(HasSubstr("as rank 1 of 3"), HasSubstr("another process has come as this rank")));
  EXPECT_THAT(reports[1] + reports[2], HasSubstr("rank 1 of 3"));
  EXPECT_THAT(reports[1] + reports[2], HasSubstr("cannot join rank 0"));
}

TEST(TcpRendezvous, DifferentNumbersOfRanksAreRefusedOnBothSides) {
  Place place;
  TestRanks processes(0, {});
  processes.add(0, [&](int) { return meet(place.options(0, 2)); });
  processes.add(1, [&](int) { return meet(place.options(1, 3)); });
  const auto reports = processes.reports();
  EXPECT_THAT(reports[0], AllOf(HasSubstr("as rank 1 of 3"), HasSubstr("a job of 2 ranks")));
  EXPECT_THAT(reports[1], AllOf(HasSubstr("rank 1 of 3"), HasSubstr("a job of 2 ranks")));
}

TEST(TcpRendezvous, WrongSecretStaysOutsideAndIsTold) {
  Place place;
  TestRanks processes(2, [&](int rank) { return meet(place.options(rank, 3, 4)); });
  processes.add(2, [&](int) {
    auto options = place.options(2, 3, 4);
    options.secret = Secret::generate();
    return meet(std::move(options));
  });
  const auto reports = processes.reports();
  EXPECT_THAT(reports[0], AllOf(HasSubstr("rank 2 did not"), HasSubstr("did not prove")));
  EXPECT_THAT(reports[1], HasSubstr("rank 2 did not"));
  EXPECT_THAT(reports[2], HasSubstr("does not know this job's secret"));
}

TEST(TcpRendezvous, OldGenerationIsRefusedNewOneFormsAtTheSamePlace) {
  Place place;
  const auto options = [&](int rank, uint32_t generation) {
    auto made = place.options(rank, 2);
    made.membership.generation = generation;
    return made;
  };
  TestRanks processes(0, {});
  processes.add(1, [&](int) { return meet(options(1, 1)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  processes.add(0, [&](int) { return meet(options(0, 2)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  processes.add(1, [&](int) { return meet(options(1, 2)); });
  const auto reports = processes.reports();
  EXPECT_THAT(reports[0], HasSubstr("the job is at generation 2"));
  EXPECT_THAT(reports[1], HasSubstr("0,1"));
  EXPECT_THAT(reports[2], HasSubstr("0,1"));
}

TEST(TcpRendezvous, StrangersNeitherJoinNorDelay) {
  constexpr double kTimeoutSeconds = 80;
  Place place;
  TestRanks processes(0, {});
  const auto begin = Clock::now();
  for (int rank = 0; rank < 4; ++rank) {
    processes.add(rank, [&](int r) {
      // The strangers are there first, and keep coming while the ranks do. They are threads, so they start
      // after the processes: a fork may copy what another thread has just locked.
      std::this_thread::sleep_for(std::chrono::milliseconds(100 + 100 * r));
      return meet(place.options(r, 4, kTimeoutSeconds));
    });
  }
  TestStrangers strangers(place.address);
  EXPECT_THAT(processes.reports(), Each(HasSubstr("0,1,2,3")));
  // Nobody waited for a stranger to run out of patience.
  EXPECT_LT(std::chrono::duration<double>(Clock::now() - begin).count(), handshake_seconds(kTimeoutSeconds));
  EXPECT_GT(strangers.connections(), 20);
}

}  // namespace
}  // namespace trireme::comm
