// Messages between threads; see inproc.h. A sender pushes its message into the receiver's mailbox; the
// receiver matches it, copies, and pushes it back, which ends the send. Matching is the receiver's alone, so
// nothing is locked but for sleeping.
#include "trireme/comm/transport/inproc/inproc.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "trireme/comm/transport/ticks.h"
#include "trireme/comm/transport/transport.h"

namespace trireme::comm {
namespace {

// Up to this size a message is kept aside, so that the sender need not wait for the receiver …
constexpr size_t kKeptBytes = 4096;
// … unless so many are on their way to that peer already.
constexpr int kKeptMessages = 64;

constexpr int kInprocSpins = 2000;

}  // namespace

template <typename T>
void InprocTransport::List<T>::push(T* item) {
  item->next = nullptr;
  *end = item;
  end = &item->next;
}

template <typename T>
T* InprocTransport::List<T>::take(uint64_t stream) {
  for (T** at = &first; *at != nullptr; at = &(*at)->next) {
    T* const item = *at;
    if (item->label.stream != stream) continue;
    *at = item->next;
    if (end == &item->next) end = at;
    return item;
  }
  return nullptr;
}

InprocTransport::InprocTransport(std::shared_ptr<InprocHub> hub, int rank)
    : Transport(rank, hub->ranks()), hub_(std::move(hub)), box_(hub_->box(rank)), peers_(ranks()) {
  // With more threads than cores, spinning takes the core from the one that is waited for.
  spins_ = static_cast<unsigned>(ranks()) <= std::thread::hardware_concurrency() ? kInprocSpins : 0;
  // As many as are usually under way, so that sending allocates nothing, however far this rank is ahead.
  for (int i = 0; i < kKeptMessages; ++i) {
    InprocMessage& message = box_.messages.emplace_back();
    message.kept.resize(kKeptBytes);
    message.next = std::exchange(free_, &message);
  }
}

InprocTransport::~InprocTransport() {
  withdraw();
  hub_->leave(rank());
}

// Before an error leaves this object, the memory of pending sends must be safe to free.
void InprocTransport::check() {
  if (!hub_->failed()) return;
  withdraw();
  hub_->throw_if_failed();
}

void InprocTransport::withdraw() {
  using State = InprocMessage::State;
  for (InprocMessage& message : box_.messages) {
    if (message.request == nullptr) continue;
    State expected = State::posted;
    if (message.state.compare_exchange_strong(expected, State::withdrawn)) continue;
    while (message.state.load() == State::being_taken) std::this_thread::yield();
  }
}

InprocMessage& InprocTransport::free_message() {
  if (free_ == nullptr) return box_.messages.emplace_back();
  InprocMessage& message = *free_;
  free_ = message.next;
  return message;
}

void InprocTransport::send(int peer, Label label, std::span<const std::byte> bytes, Request& request) {
  check();
  if (!box_.returned.empty()) finish_returned();
  InprocMessage& message = free_message();
  message.from = rank();
  message.to = peer;
  message.label = label;
  message.bytes = bytes.size();
  request = {};
  if (bytes.size() <= kKeptBytes && peers_[peer].sends < kKeptMessages) {
    if (message.kept.empty()) message.kept.resize(kKeptBytes);
    if (!bytes.empty()) std::memcpy(message.kept.data(), bytes.data(), bytes.size());
    message.data = message.kept.data();
    message.request = nullptr;
  } else {
    message.data = bytes.data();
    message.request = &request;
    request.done = false;
  }
  message.state.store(InprocMessage::State::posted);
  ++peers_[peer].sends;
  ++counters_.messages_sent;
  counters_.bytes_sent += bytes.size();
  hub_->box(peer).incoming.push(&message);
  hub_->wake(peer);
}

void InprocTransport::receive(int peer, Label label, std::span<std::byte> into, Combine combine,
                              Request& request) {
  check();
  request = {.done = false,
             .peer = peer,
             .label = label,
             .data = into.data(),
             .bytes = into.size(),
             .combine = combine};
  if (InprocMessage* const message = peers_[peer].unexpected.take(label.stream)) {
    deliver(*message, request);
  } else {
    peers_[peer].receives.push(&request);
  }
}

void InprocTransport::deliver(InprocMessage& message, Request& request) {
  using State = InprocMessage::State;
  if (message.label.call != request.label.call) {
    hub_->fail(Failure::mismatch, message.from,
               calls_differ(rank(), request.label.call, message.from, message.label.call));
    check();
  }
  if (message.bytes != request.bytes) {
    hub_->fail(Failure::mismatch, message.from,
               sizes_differ(rank(), request.bytes, message.from, message.bytes, message.label.call));
    check();
  }
  State expected = State::posted;
  if (!message.state.compare_exchange_strong(expected, State::being_taken)) {
    // Withdrawn: its sender has failed, or is leaving without having waited for it.
    hub_->fail(Failure::died, message.from, fmt::format("rank {} left", message.from));
    check();
  }
  if (request.combine != nullptr) {
    request.combine(request.data, message.data, message.bytes);
  } else if (message.bytes > 0) {
    std::memcpy(request.data, message.data, message.bytes);
  }
  counters_.bytes_received += message.bytes;
  request.moved = message.bytes;
  request.done = true;
  const int from = message.from;
  message.state.store(State::taken);
  hub_->box(from).returned.push(&message);
  hub_->wake(from);
}

void InprocTransport::finish_returned() {
  for (InprocMessage* message = box_.returned.take_all(); message != nullptr;) {
    InprocMessage* const next = message->next;
    if (message->request != nullptr) message->request->done = true;
    message->request = nullptr;
    --peers_[message->to].sends;
    message->next = free_;
    free_ = message;
    message = next;
  }
}

bool InprocTransport::progress() {
  check();
  seen_left_ = hub_->left();
  const bool moved = empty_mailbox();
  if (seen_left_ > 0) check_left();
  return moved;
}

bool InprocTransport::empty_mailbox() {
  bool moved = false;
  if (!box_.returned.empty()) {
    finish_returned();
    moved = true;
  }
  if (box_.incoming.empty()) return moved;
  for (InprocMessage* message = box_.incoming.take_all(); message != nullptr;) {
    InprocMessage* const next = message->next;
    Peer& peer = peers_[message->from];
    if (Request* const request = peer.receives.take(message->label.stream)) {
      deliver(*message, *request);
    } else {
      peer.unexpected.push(message);
    }
    message = next;
  }
  return true;
}

bool InprocTransport::waits_for(int peer) const {
  if (peers_[peer].receives.first != nullptr) return true;
  return std::ranges::any_of(box_.messages, [&](const InprocMessage& message) {
    return message.request != nullptr && message.to == peer;
  });
}

// Whether this rank waits for one that is gone. What that one did before it went is in the mailbox once it is
// seen to be gone, so there has to be another look.
void InprocTransport::check_left() {
  for (int peer = 0; peer < ranks(); ++peer) {
    if (peer == rank() || !hub_->box(peer).gone.load() || !waits_for(peer)) continue;
    empty_mailbox();
    if (!waits_for(peer)) continue;
    hub_->fail(Failure::died, peer, fmt::format("rank {} left while rank {} waited for it", peer, rank()));
    check();
  }
}

void InprocTransport::idle(Clock::time_point deadline) {
  const auto something = [&] { return !box_.incoming.empty() || !box_.returned.empty() || hub_->failed(); };
  for (int spin = 0; spin < spins_; ++spin) {
    if (something()) return;
    relax();
  }
  std::unique_lock lock(box_.mutex);
  box_.asleep.store(true);
  box_.woken.wait_until(lock, deadline, [&] { return something() || hub_->left() != seen_left_; });
  box_.asleep.store(false);
}

std::unique_ptr<Memory> InprocTransport::allocate(size_t bytes) {
  return heap_memory(bytes);
}

void InprocTransport::announce(Label label) {
  check();
  hub_->enter(rank(), label);
  check();
}

std::vector<Arrival> InprocTransport::arrivals(uint64_t stream, std::span<const int> ranks,
                                               Clock::time_point) {
  std::vector<Arrival> all;
  for (const int rank : ranks) all.push_back(hub_->arrival(rank, stream));
  return all;
}

void InprocTransport::abort(std::string_view reason) {
  hub_->fail(Failure::aborted, rank(), fmt::format("rank {} ended the job: {}", rank(), reason));
  withdraw();
}

std::unique_ptr<Native> InprocTransport::native(uint32_t, std::span<const int>) {
  return nullptr;
}

}  // namespace trireme::comm
