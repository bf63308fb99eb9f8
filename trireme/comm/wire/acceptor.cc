// Drives all handshakes of a listener side by side, from one epoll set; see acceptor.h.
#include "trireme/comm/wire/acceptor.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"

namespace trireme::comm {
namespace {

// Of one advance(): a flood of connections must leave time for those that are in.
constexpr int kMaxAcceptsAtOnce = 64;

}  // namespace

double handshake_seconds(double timeout_seconds) {
  return std::clamp(timeout_seconds / 8, 0.25, 10.0);
}

Acceptor::Acceptor(Descriptor listener, const Secret& secret, Membership self, Purpose purpose,
                   int first_rank, double timeout_seconds)
    : listener_(std::move(listener)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      secret_(secret),
      self_(std::move(self)),
      purpose_(purpose),
      first_rank_(first_rank),
      patience_(clock_duration(handshake_seconds(timeout_seconds))),
      present_(self_.ranks) {
  if (!epoll_) throw_error("cannot make an epoll descriptor: {}", std::strerror(errno));
  watch(listener_.get(), 0);
}

void Acceptor::watch(int socket, uint64_t id) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = id;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket, &event) != 0) {
    throw_error("cannot watch a socket: {}", std::strerror(errno));
  }
}

Verdict Acceptor::judge(int rank) {
  if (rank < first_rank_) return Verdict::other_rank;
  if (present_[rank]) return Verdict::taken;
  present_[rank] = true;
  return Verdict::welcome;
}

void Acceptor::accept_waiting() {
  for (int i = 0; i < kMaxAcceptsAtOnce; ++i) {
    Descriptor socket = accept_from(listener_.get());
    if (!socket) {
      // Out of descriptors: a stranger's is as good as any.
      if ((errno == EMFILE || errno == ENFILE) && !pending_.empty()) {
        drop(pending_.begin());
        continue;
      }
      if (errno == EMFILE || errno == ENFILE) {
        throw_error("no file descriptor is left for a connection of a rank; raise the limit (ulimit -n)");
      }
      return;
    }
    if (pending_.size() >= kMaxStrangers + static_cast<size_t>(self_.ranks)) drop(pending_.begin());
    const uint64_t id = next_id_++;
    watch(socket.get(), id);
    std::string address = remote_address(socket.get());
    auto handshake = std::make_unique<AcceptorHandshake>(secret_, self_, purpose_,
                                                         [this](int rank) { return judge(rank); });
    pending_.emplace(
        id, Pending{std::move(socket), std::move(handshake), Clock::now() + patience_, std::move(address)});
  }
}

Acceptor::Progress Acceptor::drive(Pending& pending) {
  AcceptorHandshake& handshake = *pending.handshake;
  for (;;) {
    const auto out = handshake.to_send();
    if (!out.empty()) {
      const ssize_t sent = send(pending.socket.get(), out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      // The frames fit into any socket's buffer; one that does not take them is not one of ours.
      if (sent != static_cast<ssize_t>(out.size())) return Progress::ended;
      handshake.sent(out.size());
    }
    if (handshake.state() == Handshake::State::done) return Progress::admitted;
    if (handshake.state() == Handshake::State::failed) return Progress::ended;
    std::array<std::byte, 128> bytes;
    const ssize_t got = recv(pending.socket.get(), bytes.data(), handshake.wanted(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Progress::waiting;
    if (got <= 0) return Progress::ended;
    handshake.receive(std::span(bytes).first(static_cast<size_t>(got)));
  }
}

void Acceptor::drop(std::map<uint64_t, Pending>::iterator pending) {
  const AcceptorHandshake& handshake = *pending->second.handshake;
  const Verdict verdict = handshake.verdict();
  if (handshake.peer_rank() < 0) {
    ++strangers_;
  } else if (verdict == Verdict::welcome) {
    readmit(handshake.peer_rank());  // it went before it heard so
  } else {
    last_refused_ = fmt::format("{} as rank {} of {}: {}", pending->second.address, handshake.peer_rank(),
                                handshake.peer_ranks(), to_text(verdict, handshake.detail()));
    if (verdict == Verdict::taken || verdict == Verdict::other_ranks) conflict_ = last_refused_;
  }
  pending_.erase(pending);  // closes it, and so takes it out of the epoll set
}

std::vector<Admitted> Acceptor::advance() {
  std::vector<Admitted> admitted;
  const auto advance_one = [&](std::map<uint64_t, Pending>::iterator pending) {
    const Progress progress = drive(pending->second);
    if (progress == Progress::ended) drop(pending);
    if (progress != Progress::admitted) return;
    Pending& in = pending->second;
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, in.socket.get(), nullptr);
    admitted.push_back({in.handshake->peer_rank(), std::move(in.socket), std::move(in.address)});
    pending_.erase(pending);
  };
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const uint64_t id = events[i].data.u64;
    if (id != 0) {
      if (const auto pending = pending_.find(id); pending != pending_.end()) advance_one(pending);
      continue;
    }
    const uint64_t first_new = next_id_;
    accept_waiting();
    // The challenge goes out at once, and the proof may be there already.
    for (auto it = pending_.lower_bound(first_new); it != pending_.end();) advance_one(it++);
  }
  const auto now = Clock::now();
  while (!pending_.empty() && pending_.begin()->second.deadline <= now) drop(pending_.begin());
  return admitted;
}

Clock::time_point Acceptor::wake() const {
  return pending_.empty() ? Clock::time_point::max() : pending_.begin()->second.deadline;
}

std::string Acceptor::turned_away() const {
  std::string text;
  if (strangers_ > 0)
    text += fmt::format("; {} connections did not prove that they know the secret", strangers_);
  if (!last_refused_.empty()) text += fmt::format("; refused was {}", last_refused_);
  return text;
}

}  // namespace trireme::comm
