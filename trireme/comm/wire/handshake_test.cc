// The handshake without sockets: who gets in, and that nothing recorded, reflected or altered does.
#include "trireme/comm/wire/handshake.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace trireme::comm {
namespace {

using Bytes = std::vector<std::byte>;

Verdict welcome(int) {
  return Verdict::welcome;
}

Bytes take(Handshake& from) {
  const auto out = from.to_send();
  Bytes bytes(out.begin(), out.end());
  from.sent(bytes.size());
  return bytes;
}

// In pieces, as a network may deliver them.
void give(Handshake& to, const Bytes& bytes, size_t piece = 7) {
  for (size_t at = 0; at < bytes.size() && to.wanted() > 0; at += piece) {
    to.receive(std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)));
  }
}

struct Pair {
  Secret connector_secret = Secret::generate();
  Secret acceptor_secret = connector_secret;
  Membership connector_self{.job = "a", .generation = 3, .rank = 2, .ranks = 4};
  Membership acceptor_self{.job = "a", .generation = 3, .rank = 0, .ranks = 4};
  int to_rank = 0;
  Purpose connector_purpose = Purpose::rendezvous;
  AcceptorHandshake::Judge judge = welcome;

  Verdict acceptor_says{}, connector_hears{};
  Bytes challenge, proof, answer;

  Pair& run() {
    AcceptorHandshake acceptor(acceptor_secret, acceptor_self, Purpose::rendezvous, judge);
    ConnectorHandshake connector(connector_secret, connector_self, connector_purpose, to_rank);
    EXPECT_TRUE(connector.to_send().empty()) << "the acceptor speaks first";
    give(connector, challenge = take(acceptor));
    give(acceptor, proof = take(connector));
    give(connector, answer = take(acceptor));
    EXPECT_NE(acceptor.state(), Handshake::State::working);
    EXPECT_NE(connector.state(), Handshake::State::working);
    EXPECT_EQ(acceptor.state() == Handshake::State::done, acceptor.verdict() == Verdict::welcome);
    EXPECT_EQ(acceptor.peer_rank(), acceptor.verdict() == Verdict::unproven ? -1 : connector_self.rank);
    acceptor_says = acceptor.verdict();
    connector_hears = connector.verdict();
    return *this;
  }
};

void expect_both(Pair pair, Verdict verdict) {
  pair.run();
  EXPECT_EQ(pair.acceptor_says, verdict);
  EXPECT_EQ(pair.connector_hears, verdict);
}

TEST(Handshake, RanksOfOneJobMeet) {
  expect_both({}, Verdict::welcome);
}

TEST(Handshake, BothSidesLearnWhyNot) {
  expect_both({.connector_secret = Secret::generate(), .acceptor_secret = Secret::generate()},
              Verdict::unproven);
  expect_both({.connector_self = {.job = "b", .generation = 3, .rank = 2, .ranks = 4}}, Verdict::other_job);
  expect_both({.connector_purpose = Purpose::mesh}, Verdict::other_job);
  expect_both({.connector_self = {.job = "a", .generation = 2, .rank = 2, .ranks = 4}},
              Verdict::other_generation);
  expect_both({.connector_self = {.job = "a", .generation = 3, .rank = 2, .ranks = 5}}, Verdict::other_ranks);
  expect_both({.connector_self = {.job = "a", .generation = 3, .rank = 4, .ranks = 4}}, Verdict::other_ranks);
  expect_both({.to_rank = 1}, Verdict::other_rank);
  expect_both({.judge = [](int) { return Verdict::taken; }}, Verdict::taken);
}

TEST(Handshake, ReplayedProofIsWorthNothing) {
  const Pair seen = Pair().run();
  AcceptorHandshake again(seen.acceptor_secret, seen.acceptor_self, Purpose::rendezvous, welcome);
  give(again, seen.proof);
  EXPECT_EQ(again.verdict(), Verdict::unproven);
}

TEST(Handshake, ReplayedWelcomeIsWorthNothing) {
  const Pair seen = Pair().run();
  ConnectorHandshake again(seen.connector_secret, seen.connector_self, Purpose::rendezvous, 0);
  give(again, seen.challenge);
  give(again, seen.answer);
  EXPECT_EQ(again.verdict(), Verdict::unproven);
}

// Someone without the secret hands an acceptor's own words back to it, and a connector's to itself.
TEST(Handshake, ReflectionIsWorthNothing) {
  const Secret secret = Secret::generate();
  AcceptorHandshake acceptor(secret, {.rank = 0, .ranks = 2}, Purpose::mesh, welcome);
  Bytes reflected = take(acceptor);
  reflected.resize(acceptor.wanted());
  give(acceptor, reflected);
  EXPECT_EQ(acceptor.verdict(), Verdict::unproven);

  AcceptorHandshake fresh(secret, {.rank = 0, .ranks = 2}, Purpose::mesh, welcome);
  ConnectorHandshake connector(secret, {.rank = 1, .ranks = 2}, Purpose::mesh, 0);
  give(connector, take(fresh));
  Bytes proof = take(connector);
  proof.resize(connector.wanted());
  give(connector, proof);
  EXPECT_EQ(connector.verdict(), Verdict::unproven);
}

TEST(Handshake, EveryAlteredByteIsNoticed) {
  const Secret secret = Secret::generate();
  const size_t proof_bytes = Pair().run().proof.size(), answer_bytes = Pair().run().answer.size();
  for (size_t at = 0; at < proof_bytes; ++at) {
    AcceptorHandshake acceptor(secret, {.rank = 0, .ranks = 2}, Purpose::mesh, welcome);
    ConnectorHandshake connector(secret, {.rank = 1, .ranks = 2}, Purpose::mesh, 0);
    give(connector, take(acceptor));
    Bytes proof = take(connector);
    proof[at] ^= std::byte{1};
    give(acceptor, proof);
    ASSERT_EQ(acceptor.verdict(), Verdict::unproven) << "byte " << at;
  }
  for (size_t at = 0; at < answer_bytes; ++at) {
    AcceptorHandshake acceptor(secret, {.rank = 0, .ranks = 2}, Purpose::mesh, welcome);
    ConnectorHandshake connector(secret, {.rank = 1, .ranks = 2}, Purpose::mesh, 0);
    give(connector, take(acceptor));
    give(acceptor, take(connector));
    Bytes answer = take(acceptor);
    answer[at] ^= std::byte{1};
    give(connector, answer);
    ASSERT_EQ(connector.verdict(), Verdict::unproven) << "byte " << at;
  }
}

}  // namespace
}  // namespace trireme::comm
