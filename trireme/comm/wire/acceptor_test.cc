// Who connects and proves nothing is let go in time, with real sockets at a real door.
#include "trireme/comm/wire/acceptor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>

#include "tests/support/times.h"

namespace trireme::comm {
namespace {

using testing::HasSubstr;

constexpr double kTimeoutSeconds = 2;  // gives a quarter of a second for the handshake

class AcceptorTest : public testing::Test {
 protected:
  Descriptor connect() {
    Descriptor socket = start_connect(address_, 0);
    pollfd entry{socket.get(), POLLOUT, 0};
    EXPECT_EQ(poll(&entry, 1, 5000), 1);
    return socket;
  }

  // Whether the acceptor ended the connection, having been driven as its users do until `seconds` are over.
  bool ended(const Descriptor& socket, double seconds) {
    const auto deadline =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    while (Clock::now() < deadline) {
      EXPECT_TRUE(acceptor_.advance().empty());
      std::array<std::byte, 256> challenge;
      const ssize_t got = recv(socket.get(), challenge.data(), challenge.size(), MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno == ECONNRESET)) return true;
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          std::min(deadline, acceptor_.wake()) - Clock::now());
      pollfd entry{acceptor_.descriptor(), POLLIN, 0};
      poll(&entry, 1, static_cast<int>(std::clamp<int64_t>(left.count() + 1, 0, 20)));
    }
    return false;
  }

  Descriptor listener_ = listen_on("127.0.0.1:0");
  std::string address_ = local_address(listener_.get());
  Secret secret_ = Secret::generate();
  Acceptor acceptor_{std::move(listener_), secret_, {.job = "test", .rank = 0, .ranks = 2},
                     Purpose::rendezvous,  1,       kTimeoutSeconds};
};

TEST_F(AcceptorTest, ASilentStrangerIsDroppedInTime) {
  const Descriptor silent = connect();
  EXPECT_FALSE(ended(silent, handshake_seconds(kTimeoutSeconds) / 2)) << "a rank may take its time";
  EXPECT_TRUE(ended(silent, handshake_seconds(kTimeoutSeconds) + 0.5 + slack_seconds()));
  EXPECT_THAT(acceptor_.turned_away(), HasSubstr("1 connections did not prove"));
  EXPECT_EQ(acceptor_.wake(), Clock::time_point::max()) << "nobody is left to wake for";
}

// Each byte is a sign of life, and none of them a proof: the time counts from the connection.
TEST_F(AcceptorTest, ASlowStrangerGetsNoMoreTime) {
  const Descriptor slow = connect();
  const auto begin = Clock::now();
  const double most_seconds = handshake_seconds(kTimeoutSeconds) + 0.5 + slack_seconds();
  bool gone = false;
  while (!gone && std::chrono::duration<double>(Clock::now() - begin).count() < most_seconds) {
    if (send(slow.get(), "T", 1, MSG_NOSIGNAL) != 1) break;
    gone = ended(slow, 0.1);
  }
  EXPECT_TRUE(gone);
}

}  // namespace
}  // namespace trireme::comm
