// Attempts to connect, one after another; see dialer.h.
#include "trireme/comm/wire/dialer.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/comm/wire/acceptor.h"

namespace trireme::comm {
namespace {

// Pauses between attempts grow from the first to the last of these.
constexpr std::chrono::milliseconds kFirstPause{5}, kLastPause{250};

}  // namespace

Dialer::Dialer(std::string address, int to_rank, const Secret& secret, Membership self, Purpose purpose,
               double timeout_seconds)
    : address_(std::move(address)),
      to_rank_(to_rank),
      secret_(secret),
      self_(std::move(self)),
      purpose_(purpose),
      patience_(clock_duration(handshake_seconds(timeout_seconds))),
      wake_(Clock::now()) {}

void Dialer::start() {
  connected_ = false;
  socket_ = start_connect(address_, attempts_++);
  if (!socket_) return retry(std::strerror(errno));
  handshake_ = std::make_unique<ConnectorHandshake>(secret_, self_, purpose_, to_rank_);
  wake_ = Clock::now() + patience_;
}

void Dialer::retry(std::string trouble) {
  trouble_ = std::move(trouble);
  socket_.reset();
  handshake_.reset();
  const auto pause = kFirstPause * (1 << std::min(attempts_, 6));
  wake_ = Clock::now() + std::min<Clock::duration>(pause, kLastPause);
}

// The handshake has failed: is there a point in another one?
void Dialer::judge() {
  const Verdict verdict = handshake_->verdict();
  const uint32_t detail = handshake_->detail();
  const std::string text = to_text(verdict, detail);
  const auto now = Clock::now();
  if (verdict == Verdict::unproven) first_unproven_ = std::min(first_unproven_, now);
  // A past job or generation may still be about to leave the place.
  const bool may_change = (verdict == Verdict::unproven && now < first_unproven_ + patience_) ||
                          (verdict == Verdict::other_generation && detail < self_.generation);
  if (!may_change) {
    throw_error("rank {} of {} (generation {} of job '{}') cannot join rank {} at {}: {}", self_.rank,
                self_.ranks, self_.generation, self_.job, to_rank_, address_, text);
  }
  retry(text);
}

bool Dialer::advance() {
  const auto now = Clock::now();
  if (!handshake_) {
    if (now < wake_) return false;
    start();
    if (!handshake_) return false;
  }
  if (!connected_) {
    pollfd entry = poll_entry();
    if (poll(&entry, 1, 0) == 1) {
      if (const int error = connect_error(socket_.get()); error != 0) {
        retry(std::strerror(error));
        return false;
      }
      connected_ = true;
    }
  }
  while (connected_) {
    if (const auto out = handshake_->to_send(); !out.empty()) {
      const ssize_t sent = send(socket_.get(), out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent != static_cast<ssize_t>(out.size())) {
        retry(sent < 0 ? std::strerror(errno) : "the connection takes nothing");
        return false;
      }
      handshake_->sent(out.size());
    }
    if (handshake_->state() == Handshake::State::done) return true;
    if (handshake_->state() == Handshake::State::failed) {
      judge();
      return false;
    }
    std::array<std::byte, 128> bytes;
    const ssize_t got = recv(socket_.get(), bytes.data(), handshake_->wanted(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (got <= 0) {
      retry(got < 0 ? std::strerror(errno) : "the connection was closed during the handshake");
      return false;
    }
    handshake_->receive(std::span(bytes).first(static_cast<size_t>(got)));
  }
  if (now >= wake_) retry("it is there, and does not answer");
  return false;
}

pollfd Dialer::poll_entry() const {
  return {.fd = socket_.get(), .events = static_cast<short>(connected_ ? POLLIN : POLLOUT), .revents = 0};
}

}  // namespace trireme::comm
