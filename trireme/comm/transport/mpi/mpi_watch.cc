// See mpi_transport.h. This file: waiting without burning a core, and finding out why nothing comes.
#include <algorithm>
#include <thread>

#include "trireme/comm/transport/mpi/mpi_transport.h"
#include "trireme/comm/transport/transport.h"

namespace trireme::comm {
namespace {

using Seconds = std::chrono::duration<double>;

// How long to poll before sleeping, and the sleeps, which double. MPI has no call that waits without polling.
constexpr auto kSpin = std::chrono::microseconds(50);
constexpr auto kFirstSleep = std::chrono::microseconds(20);
constexpr auto kLongestSleep = std::chrono::milliseconds(1);

// After this long without a movement a rank tells the ranks it waits for in which call it is, so that ranks
// in different calls find out although no message passes between them. Then again after twice the time.
constexpr double kNoticeSeconds = 0.1;

}  // namespace

std::unique_ptr<Memory> MpiTransport::allocate(size_t bytes) {
  return heap_memory(bytes);
}

void MpiTransport::idle(Clock::time_point deadline) {
  const Clock::time_point begin = Clock::now();
  std::chrono::nanoseconds sleep = kFirstSleep;
  while (!progress()) {
    const Clock::time_point now = Clock::now();
    if (now >= deadline) return;
    if (now - last_moved_ > Seconds(std::max(kNoticeSeconds, next_notice_seconds_))) tell_waiting();
    // Whether a native operation has moved is for its owner to see, so it gets its turn after every pause.
    if (native_operations_ > 0)
      sleep = std::clamp<std::chrono::nanoseconds>(now - last_moved_, kFirstSleep, kLongestSleep);
    if (now - (native_operations_ > 0 ? last_moved_ : begin) < kSpin) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(sleep, deadline - now));
      sleep = std::min<std::chrono::nanoseconds>(2 * sleep, kLongestSleep);
    }
    if (native_operations_ > 0) return;
  }
}

void MpiTransport::note_native(int change) {
  native_operations_ += change;
  last_moved_ = Clock::now();
  next_notice_seconds_ = 0;
}

void MpiTransport::announce(Label label) {
  check_alive();
  announced_.add(label);
}

void MpiTransport::tell_waiting() {
  next_notice_seconds_ = std::max(kNoticeSeconds, next_notice_seconds_) * 2;
  for (const Lane& lane : lanes_) {
    control_->send(lane.peer, {.kind = ControlMessage::waiting, .label = lane.posted.front()->label});
  }
  // A rank in a native operation waits for nobody that is known here.
  if (lanes_.empty() && announced_.last() && ranks() > 1) {
    control_->send((rank() + 1) % ranks(), {.kind = ControlMessage::waiting, .label = *announced_.last()});
  }
}

void MpiTransport::compare(int peer, Label mine, uint64_t their_call) {
  if (their_call == mine.call) return;
  fail(PeerError(Failure::mismatch, peer, calls_differ(rank(), mine.call, peer, their_call)));
}

void MpiTransport::handle_control() {
  while (std::optional<MpiControl::Received> received = control_->receive()) {
    const ControlMessage& message = received->message;
    switch (message.kind) {
      case ControlMessage::aborted:
        job_failed_ = true;
        failure_ = std::make_unique<PeerError>(message.failure, message.rank, message.text);
        throw *failure_;
      case ControlMessage::waiting:
        if (const auto call = announced_.call_of(message.label.stream))
          compare(received->from, {message.label.stream, *call}, message.label.call);
        break;
      case ControlMessage::asked:
        control_->send(received->from, {.kind = ControlMessage::answered,
                                        .entered = announced_.entered(message.label.stream),
                                        .label = message.label});
        break;
      case ControlMessage::answered:
        answers_.push_back({received->from, message.label.stream, message.entered});
        break;
    }
  }
}

std::vector<Arrival> MpiTransport::arrivals(uint64_t stream, std::span<const int> asked,
                                            Clock::time_point deadline) {
  answers_.clear();
  for (int peer : asked) {
    if (peer != rank() && failure_ == nullptr)
      control_->send(peer, {.kind = ControlMessage::asked, .label = {.stream = stream}});
  }
  std::vector<Arrival> arrivals(asked.size(), Arrival::silent);
  for (;;) {
    if (failure_ == nullptr) handle_control();
    for (size_t i = 0; i < asked.size(); ++i) {
      if (asked[i] == rank())
        arrivals[i] = announced_.entered(stream) ? Arrival::arrived : Arrival::not_arrived;
      for (const Answer& answer : answers_) {
        if (answer.from == asked[i] && answer.stream == stream)
          arrivals[i] = answer.entered ? Arrival::arrived : Arrival::not_arrived;
      }
    }
    const bool all = std::ranges::count(arrivals, Arrival::silent) == 0;
    if (all || failure_ != nullptr || Clock::now() >= deadline) return arrivals;
    std::this_thread::sleep_for(kFirstSleep);
  }
}

void MpiTransport::check_alive() {
  if (failure_ != nullptr) throw *failure_;
}

void MpiTransport::check(int code, int peer, const char* doing) {
  try {
    check_mpi(code, peer, doing);
  } catch (const PeerError& error) {
    fail(error);
  }
}

void MpiTransport::fail(const PeerError& error) {
  if (failure_ == nullptr) {
    job_failed_ = true;
    failure_ = std::make_unique<PeerError>(error);
    // The others hear that it was this error that ended the job, by best effort: MPI may be broken.
    for (int peer = 0; peer < ranks(); ++peer) {
      if (peer == rank()) continue;
      try {
        control_->send(peer, {.kind = ControlMessage::aborted,
                              .rank = error.rank(),
                              .failure = error.failure(),
                              .text = error.what()});
      } catch (const PeerError&) {
      }
    }
  }
  throw *failure_;
}

void MpiTransport::abort(std::string_view reason) {
  try {
    fail(PeerError(Failure::aborted, rank(), std::string(reason)));
  } catch (const PeerError&) {
  }
}

}  // namespace trireme::comm
