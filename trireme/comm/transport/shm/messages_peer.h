// What the message layer knows of one peer: a queue of sends, of which the first may be under way, a queue of
// receives, and at most one incoming message under way, which goes to a receive or is kept.
#pragma once

#include <list>

#include "trireme/comm/transport/shm/messages.h"

namespace trireme::comm::shm {

inline bool counted(Label label) {
  return static_cast<uint32_t>(label.stream) != kSetupSequence;
}

// Requests in the order posted, linked through Request::next.
struct Queue {
  Request* first = nullptr;
  Request* last = nullptr;

  bool empty() const { return first == nullptr; }
  void append(Request& request) {
    request.next = nullptr;
    (first == nullptr ? first : last->next) = &request;
    last = &request;
  }
  void pop() { first = first->next; }
  Request* find(uint64_t stream) const {
    Request* request = first;
    while (request != nullptr && request->label.stream != stream) request = request->next;
    return request;
  }
  void remove(Request* request) {
    if (first == request) return pop();
    Request* before = first;
    while (before->next != request) before = before->next;
    before->next = request->next;
    if (last == request) last = before;
  }
};

// A message that came before its receive: its bytes, or where they lie in the sender's memory.
struct Messages::Kept {
  Label label;
  size_t total = 0;
  std::unique_ptr<std::byte[]> bytes;
  size_t arrived = 0;
  uint64_t place = 0;
  uint32_t ticket = 0;
  Request* request = nullptr;  // posted while the message was arriving

  bool complete() const { return place != 0 || arrived == total; }
};

struct Messages::Peer {
  int rank;
  SharedMemory* segment;
  Ring* in;
  Ring* out;

  Queue sends;
  uint32_t written = 0;  // slots of `out` that were filled so far
  uint32_t freed = 0;    // and freed, when last looked at
  uint32_t tickets = 0;  // bit t: ticket t is in use
  std::array<Request*, kTickets> ticket_request{};
  std::array<uint32_t, kTickets> ticket_uses{};

  Queue receives;
  uint32_t read = 0;             // slots of `in` that were emptied so far
  Request* current = nullptr;    // where the fragments that come next belong,
  Kept* current_kept = nullptr;  // or here
  std::list<Kept> kept;

  const Slot* fresh() const {
    const Slot& slot = in->slots[read % kSlots];
    return slot.stamp.load(std::memory_order_acquire) == read + 1 ? &slot : nullptr;
  }
  Slot* free_slot() {
    if (written - freed == kSlots) freed = out->freed.load(std::memory_order_acquire);
    return written - freed == kSlots ? nullptr : &out->slots[written % kSlots];
  }
  void publish(Slot& slot) { slot.stamp.store(++written, std::memory_order_release); }
};

}  // namespace trireme::comm::shm
