// Who is where, and the end of the job; see tcp.h. After a failure the connections stay, for surveys and so
// that everybody hears of it; messages are thrown away.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "trireme/base/text.h"
#include "trireme/comm/transport/tcp/tcp.h"
#include "trireme/comm/transport/transport.h"

namespace trireme::comm {
namespace {

size_t entered_slot(uint64_t stream) {
  return static_cast<size_t>((stream ^ stream >> 32) % 256);
}

constexpr uint64_t kYes = 1;

// What an abort is about, in its header.
uint64_t abort_word(Failure failure, int rank) {
  return uint64_t{static_cast<uint8_t>(failure)} << 32 | static_cast<uint32_t>(rank);
}

}  // namespace

// Notes the first failure, lets go of all memory of requests, and tells the others. Also what was heard from
// one of them: this rank may end next, and a rank that has not heard yet must not take that for the reason.
void TcpTransport::fail(const PeerError& error) {
  if (failure_) return;
  failure_.emplace(error);
  const uint64_t what = abort_word(error.failure(), error.rank());
  for (const auto& peer : peers_) {
    if (!peer) continue;
    peer->inbox.discard();
    peer->outbox.discard();
    peer->outbox.post_control(FrameKind::abort, 0, what, error.what());
    flush(*peer);
  }
}

// The connection has ended, with an errno or (0) in good order.
void TcpTransport::gone(Peer& peer, int error) {
  peer.socket.reset();  // epoll forgets it with that
  peer.carry.clear();
  if (peer.left) return check_left(peer);
  const bool cut = error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH || error == ENETDOWN;
  const std::string what =
      cut ? fmt::format("rank {} at {} is cut off: {}", peer.rank, peer.address, std::strerror(error))
          : fmt::format(
                "rank {} at {} died: its connection ended without a goodbye ({}); its own output "
                "or the system's log may say why",
                peer.rank, peer.address, error == 0 ? "closed" : std::strerror(error));
  lose(peer, PeerError(cut ? Failure::cut_off : Failure::died, peer.rank, what));
}

// Without a rank that the job can do without; or the end of the job.
void TcpTransport::lose(Peer& peer, const PeerError& error) {
  if (!peer.may_be_lost) return fail(error);
  if (peer.lost || failure_) return;
  peer.lost.emplace(error);
  peer.inbox.discard();
  peer.outbox.discard();
}

bool TcpTransport::bear_loss_of(std::span<const int> ranks) {
  for (const int other : ranks) {
    if (other != rank()) peers_[other]->may_be_lost = true;
  }
  return true;
}

bool TcpTransport::bears_loss_of(int peer) const {
  return peers_[peer] && peers_[peer]->may_be_lost;
}

// It may be stopped, and go on later: the connection stays, so that it finds the reason then.
void TcpTransport::give_up_on(int peer_rank, std::string_view reason) {
  Peer& peer = *peers_[peer_rank];
  TRIREME_CHECK(peer.may_be_lost);
  const std::string text = fmt::format("rank {} does without rank {}: {}", rank(), peer_rank, reason);
  lose(peer, PeerError(Failure::timed_out, peer_rank, text));
  peer.outbox.post_control(FrameKind::abort, 0, abort_word(Failure::timed_out, peer_rank), text);
  flush(peer);
}

const PeerError* TcpTransport::lost(int peer) const {
  return peers_[peer] && peers_[peer]->lost ? &*peers_[peer]->lost : nullptr;
}

void TcpTransport::abort(std::string_view reason) {
  fail(PeerError(Failure::aborted, rank(), fmt::format("rank {} ended the job: {}", rank(), reason)));
  flush_until(Clock::now() + std::chrono::milliseconds(200));
}

void TcpTransport::control(int peer_rank, const FrameHeader& header, std::string_view payload) {
  Peer& peer = *peers_[peer_rank];
  switch (static_cast<FrameKind>(header.kind)) {
    case FrameKind::bye:
      peer.left = true;
      break;
    case FrameKind::abort: {
      const auto failure = std::min<uint64_t>(header.call >> 32, static_cast<uint64_t>(Failure::aborted));
      // The end of one that the job can do without is its own alone, whomever it blames.
      const int blamed = static_cast<int>(static_cast<uint32_t>(header.call));
      lose(peer, PeerError(static_cast<Failure>(failure), peer.may_be_lost ? peer_rank : blamed,
                           printable(payload)));
      break;
    }
    case FrameKind::survey: {
      const Label* const mine = entered_label(header.stream);
      if (header.call != 0) peer.entered = header.stream;
      if (mine != nullptr && header.call != 0 && mine->call != header.call) {
        fail(PeerError(Failure::mismatch, peer_rank,
                       calls_differ(rank(), mine->call, peer_rank, header.call)));
      }
      peer.outbox.post_control(FrameKind::answer, header.stream, has_entered(header.stream) ? kYes : 0, "");
      flush(peer);
      break;
    }
    case FrameKind::answer:
      if (header.stream == surveyed_) {
        peer.answer = header.call == kYes ? Arrival::arrived : Arrival::not_arrived;
      }
      break;
    case FrameKind::message:
      break;  // never comes here
  }
}

// Ranks in different calls may all wait for each other, so that no message ever shows it. Each asks those it
// waits for, once; who entered last finds the others there.
void TcpTransport::ask() {
  for (const auto& peer : peers_) {
    if (!peer || !peer->socket) continue;
    const auto stream = peer->inbox.awaited_stream();
    if (!stream || peer->asked == *stream) continue;
    const Label* const mine = entered_label(*stream);
    if (mine == nullptr) continue;
    peer->asked = *stream;
    peer->outbox.post_control(FrameKind::survey, *stream, mine->call, "");
    flush(*peer);
  }
}

void TcpTransport::unexpected(int peer_rank, Label label) {
  const Label* const mine = entered_label(label.stream);
  if (mine == nullptr || mine->call == label.call) return;
  throw PeerError(Failure::mismatch, peer_rank, calls_differ(rank(), mine->call, peer_rank, label.call));
}

const Label* TcpTransport::entered_label(uint64_t stream) const {
  const Label& label = entered_[entered_slot(stream)];
  return label.stream == stream ? &label : nullptr;
}

bool TcpTransport::has_entered(uint64_t stream) const {
  for (const auto& [group, sequence] : last_entered_) {
    if (group == stream >> 32) return static_cast<int32_t>(sequence - static_cast<uint32_t>(stream)) >= 0;
  }
  return false;
}

void TcpTransport::announce(Label label) {
  check();
  entered_[entered_slot(label.stream)] = label;
  const auto group = static_cast<uint32_t>(label.stream >> 32),
             sequence = static_cast<uint32_t>(label.stream);
  const auto last = std::find_if(last_entered_.begin(), last_entered_.end(),
                                 [&](const auto& entry) { return entry.first == group; });
  if (last == last_entered_.end()) {
    last_entered_.emplace_back(group, sequence);
  } else {
    last->second = sequence;
  }
  for (const auto& peer : peers_) {
    if (!peer) continue;
    const auto call = peer->inbox.kept_call(label.stream);
    if (!call || *call == label.call) continue;
    fail(PeerError(Failure::mismatch, peer->rank, calls_differ(rank(), label.call, peer->rank, *call)));
    check();
  }
}

std::vector<Arrival> TcpTransport::arrivals(uint64_t stream, std::span<const int> ranks,
                                            Clock::time_point deadline) {
  const Label* const mine = entered_label(stream);
  surveyed_ = stream;
  for (const int other : ranks) {
    if (other == rank()) continue;
    Peer& peer = *peers_[other];
    peer.answer.reset();
    peer.outbox.post_control(FrameKind::survey, stream, mine != nullptr ? mine->call : 0, "");
  }
  const auto outstanding = [&] {
    return std::any_of(ranks.begin(), ranks.end(), [&](int other) {
      return other != rank() && peers_[other]->socket && !peers_[other]->left && !peers_[other]->answer;
    });
  };
  sweep_due_ = true;
  while (outstanding() && Clock::now() < deadline) {
    if (!step()) sleep(deadline);
  }
  std::vector<Arrival> all;
  for (const int other : ranks) {
    if (other == rank()) {
      all.push_back(has_entered(stream) ? Arrival::arrived : Arrival::not_arrived);
      continue;
    }
    const Peer& peer = *peers_[other];
    const bool away = !peer.socket || peer.left;
    // Who came, gave up like this rank and left since was not what this rank waited for.
    const bool blamed = failure_ && failure_->failure() != Failure::aborted && failure_->rank() == other;
    if (peer.answer) {
      all.push_back(*peer.answer);
    } else if (peer.entered == stream && !blamed) {
      all.push_back(Arrival::arrived);
    } else {
      all.push_back(away ? Arrival::gone : Arrival::silent);
    }
  }
  return all;
}

}  // namespace trireme::comm
