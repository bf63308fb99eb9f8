// The calls of the transport; see tcp.h. tcp_io.cc moves the bytes, tcp_failure.cc ends the job.
#include "trireme/comm/transport/tcp/tcp.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "trireme/base/clock.h"
#include "trireme/comm/transport/tcp/mesh.h"
#include "trireme/comm/transport/transport.h"

namespace trireme::comm {
namespace {

constexpr uint64_t kNoStream = ~uint64_t{0};
// The system may have put the rank that is waited for on this very core: after this long it gets a chance.
constexpr std::chrono::microseconds kSpinAlone{10};
// After waiting so long, a rank asks those it waits for whether they are in the same call.
constexpr std::chrono::milliseconds kAskAfter{250};

}  // namespace

TcpTransport::TcpTransport(Rendezvous& rendezvous, const TcpOptions& options)
    : Transport(rendezvous.rank(), rendezvous.ranks()),
      options_(options),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      buffer_(heap_memory(kReadBufferBytes)) {
  if (!epoll_) throw_error("cannot make an epoll descriptor: {}", std::strerror(errno));
  const Membership self{options.job, options.generation, rank(), ranks()};
  Mesh mesh = connect_mesh(rendezvous, options_.secret, self, options.host, options.timeout_seconds);
  crowded_ = static_cast<unsigned>(mesh.ranks_on_host) > std::thread::hardware_concurrency();
  entered_.fill({kNoStream, 0});
  peers_.resize(ranks());
  for (int other = 0; other < ranks(); ++other) {
    if (other == rank()) continue;
    peers_[other] = std::make_unique<Peer>(rank(), other, options.unexpected_bytes);
    Peer& peer = *peers_[other];
    peer.socket = std::move(mesh.links[other].socket);
    peer.address = std::move(mesh.links[other].address);
    watch(peer);
  }
}

TcpTransport::~TcpTransport() {
  for (const auto& peer : peers_) {
    if (!peer) continue;
    peer->inbox.discard();
    peer->outbox.discard();
    if (!failure_) peer->outbox.post_control(FrameKind::bye, 0, 0, "");
  }
  if (!failure_) failure_.emplace(Failure::aborted, rank(), "this rank leaves");  // nothing disturbs it now
  flush_until(Clock::now() + std::chrono::seconds(1));
}

void TcpTransport::check() const {
  if (failure_) throw *failure_;
}

void TcpTransport::check(const Peer& peer) const {
  check();
  if (peer.lost) throw *peer.lost;
}

// A peer that said goodbye has sent all that it will, and reads no more.
void TcpTransport::check_left(Peer& peer) {
  if (!peer.left || (!peer.inbox.waiting() && !peer.outbox.has_messages())) return;
  lose(peer, PeerError(Failure::died, peer.rank,
                       fmt::format("rank {} at {} left while rank {} waited for it", peer.rank, peer.address,
                                   rank())));
}

void TcpTransport::send(int peer_rank, Label label, std::span<const std::byte> bytes, Request& request) {
  TRIREME_CHECK(bytes.size() <= kMaxMessageBytes);
  Peer& peer = *peers_[peer_rank];
  check(peer);
  request = {.done = false,
             .peer = peer_rank,
             .label = label,
             .data = const_cast<std::byte*>(bytes.data()),
             .bytes = bytes.size()};
  ++counters_.messages_sent;
  counters_.bytes_sent += bytes.size();
  const bool first = peer.outbox.empty();
  peer.outbox.post(request);
  check_left(peer);
  if (first) flush(peer);
  check(peer);
}

void TcpTransport::receive(int peer_rank, Label label, std::span<std::byte> into, Combine combine,
                           Request& request) {
  Peer& peer = *peers_[peer_rank];
  check(peer);
  request = {.done = false,
             .peer = peer_rank,
             .label = label,
             .data = into.data(),
             .bytes = into.size(),
             .combine = combine};
  const bool was_held = peer.inbox.held();
  try {
    peer.inbox.post(request);
  } catch (const PeerError& error) {
    fail(error);
  }
  if (request.done) counters_.bytes_received += request.bytes;
  if (was_held) take_carry(peer);
  check_left(peer);
  check(peer);
}

bool TcpTransport::progress() {
  check();
  const bool moved = step();
  check();
  return moved;
}

void TcpTransport::idle(Clock::time_point deadline) {
  check();
  const auto begin = Clock::now();
  const auto spin_until = std::min(deadline, begin + clock_duration(options_.spin_seconds));
  const auto give_way_after = crowded_ ? begin : begin + kSpinAlone;
  for (auto now = begin; now < spin_until; now = Clock::now()) {
    const bool moved = step();
    check();
    if (moved) return;
    if (now >= give_way_after) std::this_thread::yield();
  }
  if (!sleep(std::min(deadline, Clock::now() + kAskAfter))) ask();
}

std::unique_ptr<Memory> TcpTransport::allocate(size_t bytes) {
  return heap_memory(bytes);
}

std::unique_ptr<Native> TcpTransport::native(uint32_t, std::span<const int>) {
  return nullptr;
}

}  // namespace trireme::comm
