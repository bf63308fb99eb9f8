// Moves bytes between the sockets and the boxes; see tcp.h. A rank that waits for one or two peers reads
// their sockets directly, without asking epoll first: for a small message that is half of the system calls.
// The others are looked at now and then, so that a death is noticed whatever this rank is waiting for.
#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "trireme/comm/transport/tcp/tcp.h"

namespace trireme::comm {
namespace {

// So many peers are read directly.
constexpr int kDirectPeers = 2;
// Every so many steps all peers are looked at.
constexpr uint32_t kSweepSteps = 64;

}  // namespace

// Hands over what the socket takes; true when that was anything.
bool TcpTransport::flush(Peer& peer) {
  bool moved = false;
  while (peer.socket && !peer.outbox.empty()) {
    const auto pieces = peer.outbox.next();
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(pieces.data());
    message.msg_iovlen = pieces.size();
    const ssize_t sent = sendmsg(peer.socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      // A connection that is no more is found out by reading: the peer may have said why, before.
      if (errno != EAGAIN && errno != EINTR) sweep_due_ = true;
      break;
    }
    moved = true;
    size_t offered = 0;
    for (const iovec& piece : pieces) offered += piece.iov_len;
    peer.outbox.sent(static_cast<size_t>(sent));
    if (static_cast<size_t>(sent) < offered) break;
  }
  return moved;
}

// Gives the inbox what lies at `start` (as its position() says) and keeps what it does not take.
void TcpTransport::take(Peer& peer, std::byte* start, size_t bytes) {
  const uint64_t received_before = peer.inbox.bytes_received();
  for (;;) {
    const uint64_t before = peer.inbox.position();
    bool again = false;
    try {
      peer.inbox.take({start, bytes}, *this);
    } catch (const PeerError& error) {
      fail(error);
      if (error.failure() == Failure::cut_off) return gone(peer, EPROTO);  // what follows means nothing
      again = true;  // the rest is thrown away, but for control frames
    }
    const size_t taken = peer.inbox.position() - before;
    start += taken;
    bytes -= taken;
    if (!again) break;
  }
  peer.carry.assign(start, start + bytes);
  counters_.bytes_received += peer.inbox.bytes_received() - received_before;
}

// What was left when the inbox was held.
void TcpTransport::take_carry(Peer& peer) {
  std::byte* const start = buffer_->bytes().data() + peer.inbox.position() % 8;
  std::copy(peer.carry.begin(), peer.carry.end(), start);
  take(peer, start, peer.carry.size());
  check_left(peer);
}

// Reads once; true when anything came, the end of the connection included.
bool TcpTransport::read(Peer& peer) {
  if (!peer.socket || peer.inbox.held()) return false;
  std::span<std::byte> direct = peer.inbox.direct();
  if (!direct.empty() && !peer.carry.empty()) {
    take_carry(peer);
    direct = peer.inbox.direct();
  }
  const size_t carried = peer.carry.size();
  const size_t offset = (peer.inbox.position() + direct.size()) % 8;
  std::byte* const start = buffer_->bytes().data() + offset;
  std::copy_n(peer.carry.begin(), carried, start);
  const size_t ahead = std::min(peer.inbox.read_ahead(kReadBufferBytes), kReadBufferBytes - 8 - carried);
  const iovec pieces[] = {{direct.data(), direct.size()}, {start + carried, ahead}};
  ssize_t got;
  if (direct.empty()) {
    got = recv(peer.socket.get(), pieces[1].iov_base, pieces[1].iov_len, MSG_DONTWAIT);
  } else {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(pieces);
    message.msg_iovlen = 2;
    got = recvmsg(peer.socket.get(), &message, MSG_DONTWAIT);
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) {
    gone(peer, got < 0 ? errno : 0);
    return true;
  }
  const size_t directly = std::min(static_cast<size_t>(got), direct.size());
  if (directly > 0) peer.inbox.took_directly(directly);
  take(peer, start, carried + static_cast<size_t>(got) - directly);
  if (peer.left) check_left(peer);
  return true;
}

bool TcpTransport::step() {
  bool moved = false;
  int waiting = 0;
  for (const auto& peer : peers_) {
    if (!peer) continue;
    if (!peer->outbox.empty()) moved |= flush(*peer);
    waiting += peer->inbox.waiting();
  }
  if (waiting == 0 || waiting > kDirectPeers || sweep_due_ || ++steps_ % kSweepSteps == 0) {
    return sweep() || moved;
  }
  for (const auto& peer : peers_) {
    if (peer && peer->inbox.waiting()) moved |= read(*peer);
  }
  return moved;
}

// Reads from every peer that has sent something.
bool TcpTransport::sweep() {
  sweep_due_ = false;
  bool moved = false;
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    Peer& peer = *peers_[events[i].data.u32];
    if ((events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0 && peer.inbox.held()) {
      // It sends no more, so there is an end to what can be kept, and a goodbye or an abort may be in it.
      peer.inbox.take_beyond_budget();
      take_carry(peer);
    }
    moved |= read(peer);
  }
  return moved;
}

void TcpTransport::watch(Peer& peer) {
  if (!peer.socket) return;
  const uint32_t wanted = (peer.inbox.held() ? 0u : uint32_t{EPOLLIN}) |
                          (peer.outbox.empty() ? 0u : uint32_t{EPOLLOUT}) | EPOLLRDHUP;
  if (wanted == peer.watched) return;
  epoll_event event{};
  event.events = wanted;
  event.data.u32 = static_cast<uint32_t>(peer.rank);
  const int operation = peer.watched == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  TRIREME_CHECK(epoll_ctl(epoll_.get(), operation, peer.socket.get(), &event) == 0);
  peer.watched = wanted;
}

bool TcpTransport::sleep(Clock::time_point deadline) {
  for (const auto& peer : peers_) {
    if (peer) watch(*peer);
  }
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  epoll_event event;
  const int timeout = static_cast<int>(std::clamp<int64_t>(left + 1, 0, 60'000));
  sweep_due_ = true;
  return epoll_wait(epoll_.get(), &event, 1, timeout) > 0;
}

// Until everything has reached the other hosts, their systems at least. What comes is thrown away: a socket
// that is closed with something unread would destroy what it has still to deliver.
void TcpTransport::flush_until(Clock::time_point deadline) {
  const auto unsent = [&] {
    for (const auto& peer : peers_) {
      int queued = 0;
      if (!peer || !peer->socket) continue;
      ioctl(peer->socket.get(), SIOCOUTQ, &queued);
      if (queued > 0 || !peer->outbox.empty()) return true;
    }
    return false;
  };
  for (;;) {
    while (step()) {
    }
    if (!unsent() || Clock::now() > deadline) return;
    sleep(std::min(deadline, Clock::now() + std::chrono::milliseconds(1)));
  }
}

}  // namespace trireme::comm
