// See traced_communicator.h.
#include "trireme/runtime/traced_communicator.h"

#include <fmt/format.h>

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme {

TraceEvent TracedCommunicator::begun(std::string name, int64_t bytes) const {
  return {.name = std::move(name),
          .track = TraceEvent::Track::kCommunication,
          .begin = trace_.now(),
          .bytes = bytes};
}

void TracedCommunicator::start(const Collective& call) {
  under_way_.push_back({call.data, begun(fmt::format("{} {}", name(call.kind), call.axis),
                                         static_cast<int64_t>(call.bytes()))});
  inner_.start(call);
}

void TracedCommunicator::start_send(int peer, const std::byte* data, int64_t bytes, int tag) {
  TraceEvent event = begun(fmt::format("send to {}", peer), bytes);
  event.arrow = TraceEvent::Arrow::kLeaves;
  event.message = message_number(rank_, peer);
  under_way_.push_back({data, std::move(event)});
  inner_.start_send(peer, data, bytes, tag);
}

void TracedCommunicator::start_receive(int peer, std::byte* data, int64_t bytes, int tag) {
  TraceEvent event = begun(fmt::format("receive from {}", peer), bytes);
  event.arrow = TraceEvent::Arrow::kArrives;
  event.message = message_number(peer, rank_);
  under_way_.push_back({data, std::move(event)});
  inner_.start_receive(peer, data, bytes, tag);
}

// Of the first that was started on `data`, which is waited for.
TraceEvent TracedCommunicator::take_event(const std::byte* data) {
  const auto started = std::ranges::find(under_way_, data, &Started::data);
  TRIREME_CHECK((started != under_way_.end()));
  TraceEvent event = std::move(started->event);
  under_way_.erase(started);
  return event;
}

void TracedCommunicator::wait(const std::byte* data) {
  TraceEvent event = take_event(data);
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
  TraceEvent event = begun(fmt::format("all_to_all {}", call.axis), static_cast<int64_t>(call.given_bytes()));
  const double begin = event.begin;
  inner_.all_to_all(call);
  end(std::move(event), begin);
}

void TracedCommunicator::end(TraceEvent event, double waited_from) {
  event.end = trace_.now();
  trace_.add({.name = "wait: " + event.name, .begin = waited_from, .end = event.end});
  trace_.add(std::move(event));
}

}  // namespace trireme
