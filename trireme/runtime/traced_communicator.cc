// See traced_communicator.h.
#include "trireme/runtime/traced_communicator.h"

#include <fmt/format.h>

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme {

TraceEvent TracedCommunicator::begun(TraceEvent::Kind kind, std::string name, int64_t bytes) const {
  return {.name = std::move(name),
          .kind = kind,
          .track = TraceEvent::Track::kCommunication,
          .begin = trace_.now(),
          .bytes = bytes};
}

void TracedCommunicator::start(const Collective& call) {
  if (trace_.is_recording())
    under_way_.push_back(
        {call.data, begun(TraceEvent::Kind::kCollective, fmt::format("{} {}", name(call.kind), call.axis),
                          static_cast<int64_t>(call.bytes()))});
  inner_.start(call);
}

void TracedCommunicator::add_message(const char* way, int peer, const std::byte* data, int64_t bytes,
                                     TraceEvent::Arrow arrow) {
  const bool leaves = arrow == TraceEvent::Arrow::kLeaves;
  const int64_t number = leaves ? message_number(rank_, peer) : message_number(peer, rank_);
  if (!trace_.is_recording()) return;
  TraceEvent event = begun(TraceEvent::Kind::kMessage, fmt::format("{} {}", way, peer), bytes);
  event.arrow = arrow;
  event.message = number;
  under_way_.push_back({data, std::move(event)});
}

void TracedCommunicator::start_send(int peer, const std::byte* data, int64_t bytes, int tag) {
  add_message("send to", peer, data, bytes, TraceEvent::Arrow::kLeaves);
  inner_.start_send(peer, data, bytes, tag);
}

void TracedCommunicator::start_receive(int peer, std::byte* data, int64_t bytes, int tag) {
  add_message("receive from", peer, data, bytes, TraceEvent::Arrow::kArrives);
  inner_.start_receive(peer, data, bytes, tag);
}

// Of the first that was started on `data`, which is waited for.
std::optional<TraceEvent> TracedCommunicator::take_event(const std::byte* data) {
  const auto started = std::ranges::find(under_way_, data, &Started::data);
  if (started == under_way_.end()) return std::nullopt;
  TraceEvent event = std::move(started->event);
  under_way_.erase(started);
  return event;
}

void TracedCommunicator::wait(const std::byte* data) {
  std::optional<TraceEvent> event = take_event(data);
  const double begin = trace_.now();
  inner_.wait(data);
  end(std::move(event), begin);
}

Communicator::Arrived TracedCommunicator::wait_any(std::span<const std::byte* const> data, Silence too_long) {
  const double begin = trace_.now();
  Arrived arrived = inner_.wait_any(data, too_long);
  end(take_event(data[arrived.number]), begin);
  return arrived;
}

bool TracedCommunicator::try_wait(const std::byte* data) {
  const double begin = trace_.now();
  if (!inner_.try_wait(data)) return false;
  end(take_event(data), begin);
  return true;
}

void TracedCommunicator::all_to_all(const AllToAll& call) {
  std::optional<TraceEvent> event;
  if (trace_.is_recording())
    event = begun(TraceEvent::Kind::kCollective, fmt::format("all_to_all {}", call.axis),
                  static_cast<int64_t>(call.given_bytes()));
  const double begin = trace_.now();
  inner_.all_to_all(call);
  end(std::move(event), begin);
}

void TracedCommunicator::end(std::optional<TraceEvent> event, double waited_from) {
  if (!event) return;
  event->end = trace_.now();
  trace_.add({.name = "wait: " + event->name,
              .kind = TraceEvent::Kind::kWait,
              .begin = waited_from,
              .end = event->end});
  trace_.add(std::move(*event));
}

}  // namespace trireme
