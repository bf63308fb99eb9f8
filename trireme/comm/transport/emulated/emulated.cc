// See emulated.h.
#include "trireme/comm/transport/emulated/emulated.h"

#include <algorithm>
#include <utility>

#include "trireme/base/rng.h"

namespace trireme::comm {
namespace {

int64_t nanoseconds(Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}
int64_t nanoseconds(double seconds) {
  return static_cast<int64_t>(seconds * 1e9);
}

template <typename T>
std::span<std::byte> bytes_of(T& value) {
  return {reinterpret_cast<std::byte*>(&value), sizeof value};
}

}  // namespace

void EmulatedTransport::Wires::add(const EmulatedLink& link) {
  const auto equal = static_cast<size_t>(std::ranges::find(links, link) - links.begin());
  wires.push_back(equal < links.size() ? wires[equal] : until.size());
  if (equal == links.size()) until.push_back(0);
  links.push_back(link);
}

EmulatedTransport::Nanoseconds EmulatedTransport::Wires::time(int peer, size_t bytes) const {
  const double rate = links[static_cast<size_t>(peer)].bytes_per_second;
  return rate > 0 ? nanoseconds(static_cast<double>(bytes) / rate) : 0;
}

EmulatedTransport::EmulatedTransport(std::unique_ptr<Transport> inner, const EmulatedLinks& links)
    : Transport(inner->rank(), inner->ranks()),
      sent_to_(static_cast<size_t>(ranks())),
      moments_to_(static_cast<size_t>(ranks())),
      inner_(std::move(inner)) {
  for (int peer = 0; peer < ranks(); ++peer) {
    sends_.add(links(rank(), peer));
    receives_.add(links(peer, rank()));
  }
}

EmulatedTransport::Flight& EmulatedTransport::begin(Flight::Kind kind, int peer, size_t bytes,
                                                    Request& request) {
  if (free_.empty()) {
    free_.push_back(&flights_.emplace_back());
    free_.reserve(flights_.size());
    under_way_.reserve(flights_.size());
    arriving_.reserve(flights_.size());
  }
  Flight& flight = *free_.back();
  free_.pop_back();
  flight.kind = kind;
  flight.peer = peer;
  flight.request = &request;
  flight.due = -1;
  flight.bytes = bytes;
  request = {};
  request.done = false;
  return flight;
}

void EmulatedTransport::send(int peer, Label label, std::span<const std::byte> bytes, Request& request) {
  Flight& flight = begin(Flight::Kind::send, peer, bytes.size(), request);
  const EmulatedLink& link = sends_.links[static_cast<size_t>(peer)];
  Nanoseconds& until = sends_.until_of(peer);
  const Nanoseconds leaves = std::max(nanoseconds(Clock::now()), until);
  until = leaves + sends_.time(peer, bytes.size());
  // A function of sender, receiver and message number, so that all runs are delayed alike.
  const uint64_t number = sent_to_[static_cast<size_t>(peer)]++;
  const RngKey key{static_cast<uint64_t>(rank()), static_cast<uint64_t>(peer)};
  const double late = link.jitter_seconds * static_cast<double>(uniform(key, number));
  // In their order whatever the jitter.
  Nanoseconds& last = moments_to_[static_cast<size_t>(peer)];
  flight.moment = last = std::max(last, leaves + nanoseconds(link.latency_seconds + late));
  inner_->send(peer, label, bytes_of(flight.moment), flight.moment_request);
  inner_->send(peer, label, bytes, flight.request_inside);
  ++counters_.messages_sent;
  counters_.bytes_sent += bytes.size();
  under_way_.push_back(&flight);
}

void EmulatedTransport::receive(int peer, Label label, std::span<std::byte> into, Combine combine,
                                Request& request) {
  Flight& flight = begin(Flight::Kind::receive, peer, into.size(), request);
  inner_->receive(peer, label, bytes_of(flight.moment), nullptr, flight.moment_request);
  inner_->receive(peer, label, into, combine, flight.request_inside);
  under_way_.push_back(&flight);
}

// Who comes first has the wire first. That a message will come is known before: one that waits for its
// sender's wire must not hold up another one that is there.
void EmulatedTransport::give_wire(Nanoseconds now) {
  arriving_.clear();
  for (Flight* flight : under_way_) {
    const bool is_new = flight->kind == Flight::Kind::receive && flight->due < 0;
    if (is_new && flight->moment_request.done && flight->moment <= now) arriving_.push_back(flight);
  }
  std::ranges::stable_sort(arriving_, {}, &Flight::moment);
  for (Flight* flight : arriving_) {
    Nanoseconds& until = receives_.until_of(flight->peer);
    flight->due = until = std::max(flight->moment, until) + receives_.time(flight->peer, flight->bytes);
  }
}

bool EmulatedTransport::progress() {
  const bool moved_inside = inner_->progress();
  if (under_way_.empty()) return moved_inside;
  const Nanoseconds now = nanoseconds(Clock::now());
  const size_t before = under_way_.size();
  give_wire(now);
  std::erase_if(under_way_, [&](Flight* flight) {
    if (inner_->lost(flight->peer)) {
      free_.push_back(flight);
      return true;
    }
    const bool through = flight->kind == Flight::Kind::send
                             ? flight->moment_request.done && flight->request_inside.done
                             : flight->due >= 0 && flight->request_inside.done && now >= flight->due;
    if (!through) return false;
    if (flight->kind == Flight::Kind::receive) counters_.bytes_received += flight->bytes;
    flight->request->done = true;
    free_.push_back(flight);
    return true;
  });
  return moved_inside || under_way_.size() < before;
}

void EmulatedTransport::idle(Clock::time_point deadline) {
  Nanoseconds wake = nanoseconds(deadline);
  for (Flight* flight : under_way_) {
    if (flight->kind != Flight::Kind::receive) continue;
    if (flight->due >= 0)
      wake = std::min(wake, flight->due);
    else if (flight->moment_request.done)
      wake = std::min(wake, flight->moment);
  }
  inner_->idle(
      Clock::time_point(std::chrono::duration_cast<Clock::duration>(std::chrono::nanoseconds(wake))));
}

}  // namespace trireme::comm
