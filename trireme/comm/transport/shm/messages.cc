// The message layer; see messages.h. Per peer: a queue of sends, of which the first may be under way, a
// queue of receives, and at most one incoming message under way, which goes to a receive or is kept.
#include "trireme/comm/transport/shm/messages.h"

#include <bit>
#include <cstring>
#include <list>

#include "trireme/comm/transport/mismatch.h"

namespace trireme::comm::shm {
namespace {

// From here on a message that can be read where it lies is: below, the copy costs less than the
// acknowledgement.
constexpr size_t kInPlaceBytes = 16 * 1024;
// What may be kept for receives that were not posted yet, of all peers together.
constexpr size_t kKeptBytes = size_t{64} << 20;

uint64_t bit(int rank) {
  return uint64_t{1} << rank;
}

template <typename Body>
void for_bits(uint64_t mask, const Body& body) {
  for (; mask != 0; mask &= mask - 1) body(std::countr_zero(mask));
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

bool counted(Label label) {
  return static_cast<uint32_t>(label.stream) != kSetupSequence;
}

const std::byte* payload_of(const Slot& slot) {
  return slot.total <= kInlineBytes ? slot.small.data() : slot.payload.data();
}

}  // namespace

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
  Segment* segment;
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

Messages::Messages(const Segments& segments, Peers& peers, int rank, Counters& counters)
    : peers_(peers), rank_(rank), counters_(counters), heap_(segments.heap) {
  for (int r = 0; r < static_cast<int>(segments.of_rank.size()); ++r) {
    auto peer = std::make_unique<Peer>();
    peer->rank = r;
    peer->segment = segments.of_rank[r].get();
    peer->in = &segments.of_rank[rank]->ring(r);
    peer->out = &segments.of_rank[r]->ring(rank);
    of_rank_.push_back(std::move(peer));
  }
}

Messages::~Messages() = default;

void Messages::update_masks(const Peer& peer) {
  const bool receiving = !peer.receives.empty() || peer.current != nullptr ||
                         (peer.current_kept != nullptr && peer.current_kept->request != nullptr);
  const bool sending = !peer.sends.empty() || peer.tickets != 0;
  receiving_ = (receiving_ & ~bit(peer.rank)) | (receiving ? bit(peer.rank) : 0);
  sending_ = (sending_ & ~bit(peer.rank)) | (sending ? bit(peer.rank) : 0);
}

void Messages::send(int rank, Label label, std::span<const std::byte> bytes, Request& request) {
  peers_.check();
  Peer& peer = *of_rank_[rank];
  request = {.done = false,
             .peer = rank,
             .label = label,
             .data = const_cast<std::byte*>(bytes.data()),
             .bytes = bytes.size()};
  if (counted(label)) {
    ++counters_.messages_sent;
    counters_.bytes_sent += bytes.size();
  }
  peer.sends.append(request);
  if (peer.sends.first == &request) push(peer);
  update_masks(peer);
}

void Messages::receive(int rank, Label label, std::span<std::byte> into, Combine combine, Request& request) {
  peers_.check();
  Peer& peer = *of_rank_[rank];
  request = {.done = false,
             .peer = rank,
             .label = label,
             .data = into.data(),
             .bytes = into.size(),
             .combine = combine};
  for (auto kept = peer.kept.begin(); kept != peer.kept.end(); ++kept) {
    if (kept->label.stream != label.stream || kept->request != nullptr) continue;
    check_same(peer, request, kept->label, kept->total);
    if (!kept->complete()) {
      kept->request = &request;
    } else {
      if (kept->place != 0) {
        read_in_place(peer, kept->place, kept->ticket, request.data, request.bytes, combine);
      } else {
        if (combine != nullptr) {
          combine(request.data, kept->bytes.get(), kept->total);
        } else if (kept->total > 0) {
          std::memcpy(request.data, kept->bytes.get(), kept->total);
        }
        kept_bytes_ -= kept->total;
      }
      finish(request);
      peer.kept.erase(kept);
    }
    update_masks(peer);
    return;
  }
  peer.receives.append(request);
  update_masks(peer);
}

void Messages::finish(Request& request) {
  if (counted(request.label)) counters_.bytes_received += request.bytes;
  request.done = true;
}

void Messages::check_same(const Peer& peer, const Request& request, Label label, uint64_t total) {
  if (request.label.call != label.call) {
    peers_.fail(Failure::mismatch, peer.rank, calls_differ(rank_, request.label.call, peer.rank, label.call));
  }
  if (request.bytes != total) {
    peers_.fail(Failure::mismatch, peer.rank,
                sizes_differ(rank_, request.bytes, peer.rank, total, label.call));
  }
}

bool Messages::push(Peer& peer) {
  const uint32_t before = peer.written;
  while (!peer.sends.empty()) {
    Request& request = *peer.sends.first;
    const bool fresh = request.moved == 0;
    if (!(fresh && push_in_place(peer, request)) && !push_fragments(peer, request)) break;
    peer.sends.pop();
  }
  if (peer.written == before) return false;
  peers_.wake(bit(peer.rank));
  return true;
}

// False when the message does not lie in shared memory or cannot be posted now; it is then copied.
bool Messages::push_in_place(Peer& peer, Request& request) {
  if (request.bytes < kInPlaceBytes) return false;
  const size_t place = heap_->place_of(request.data, request.bytes);
  if (place == 0 || peer.tickets == ~uint32_t{0}) return false;
  Slot* slot = peer.free_slot();
  if (slot == nullptr) return false;
  const uint32_t ticket = std::countr_one(peer.tickets);
  peer.tickets |= uint32_t{1} << ticket;
  peer.ticket_request[ticket] = &request;
  ++peer.ticket_uses[ticket];
  slot->ticket = ticket;
  slot->stream = request.label.stream;
  slot->call = request.label.call;
  slot->total = request.bytes;
  slot->place = place;
  peer.publish(*slot);
  return true;
}

bool Messages::push_fragments(Peer& peer, Request& request) {
  do {
    Slot* slot = peer.free_slot();
    if (slot == nullptr) return false;
    const size_t bytes = std::min(request.bytes - request.moved, kSlotBytes);
    std::byte* to = request.bytes <= kInlineBytes ? slot->small.data() : slot->payload.data();
    if (bytes > 0) std::memcpy(to, request.data + request.moved, bytes);
    slot->stream = request.label.stream;
    slot->call = request.label.call;
    slot->total = request.bytes;
    slot->place = 0;
    peer.publish(*slot);
    request.moved += bytes;
  } while (request.moved < request.bytes);
  request.done = true;
  return true;
}

bool Messages::collect_taken(Peer& peer) {
  bool moved = false;
  for_bits(peer.tickets, [&](int ticket) {
    const uint32_t taken = peer.out->taken[ticket].load(std::memory_order_acquire);
    if (taken != peer.ticket_uses[ticket]) return;
    peer.ticket_request[ticket]->done = true;
    peer.tickets &= ~(uint32_t{1} << ticket);
    moved = true;
  });
  return moved;
}

bool Messages::can_keep(size_t bytes) const {
  return kept_bytes_ + bytes <= kKeptBytes;
}

// Finds where a message that begins with this slot goes. False: it has to stay in the ring for now.
bool Messages::begin_message(Peer& peer, const Slot& slot) {
  if (Request* request = peer.receives.find(slot.stream)) {
    check_same(peer, *request, {slot.stream, slot.call}, slot.total);
    peer.receives.remove(request);
    peer.current = request;
    return true;
  }
  const bool in_the_way = !peer.receives.empty();
  if (!in_the_way && !make_room_) return false;
  if (slot.place == 0 && !can_keep(slot.total)) return false;
  Kept& kept = peer.kept.emplace_back(Kept{.label = {slot.stream, slot.call}, .total = slot.total});
  if (slot.place != 0) {
    kept.place = slot.place;
    kept.ticket = slot.ticket;
  } else {
    kept.bytes = std::make_unique_for_overwrite<std::byte[]>(kept.total);
    kept_bytes_ += kept.total;
  }
  peer.current_kept = &kept;
  return true;
}

void Messages::deliver(Peer& peer, const Slot& slot) {
  if (slot.place != 0) {
    if (peer.current != nullptr) {
      read_in_place(peer, slot.place, slot.ticket, peer.current->data, peer.current->bytes,
                    peer.current->combine);
      finish(*peer.current);
    }
    peer.current = nullptr;
    peer.current_kept = nullptr;
    return;
  }
  const std::byte* from = payload_of(slot);
  if (Request* request = peer.current) {
    const size_t bytes = std::min(request->bytes - request->moved, kSlotBytes);
    if (request->combine != nullptr) {
      request->combine(request->data + request->moved, from, bytes);
    } else if (bytes > 0) {
      std::memcpy(request->data + request->moved, from, bytes);
    }
    request->moved += bytes;
    if (request->moved == request->bytes) {
      finish(*request);
      peer.current = nullptr;
    }
    return;
  }
  Kept& kept = *peer.current_kept;
  const size_t bytes = std::min(kept.total - kept.arrived, kSlotBytes);
  if (bytes > 0) std::memcpy(kept.bytes.get() + kept.arrived, from, bytes);
  kept.arrived += bytes;
  if (kept.arrived < kept.total) return;
  peer.current_kept = nullptr;
  if (Request* request = std::exchange(kept.request, nullptr)) {
    receive(peer.rank, request->label, {request->data, request->bytes}, request->combine, *request);
  }
}

void Messages::read_in_place(Peer& peer, uint64_t place, uint32_t ticket, std::byte* into, size_t bytes,
                             Combine combine) {
  const std::byte* from = peer.segment->at(place);
  if (combine != nullptr) {
    combine(into, from, bytes);
  } else {
    std::memcpy(into, from, bytes);
  }
  peer.in->taken[ticket].fetch_add(1, std::memory_order_release);
  peers_.wake(bit(peer.rank));
}

bool Messages::pull(Peer& peer) {
  bool moved = false;
  while (const Slot* slot = peer.fresh()) {
    const bool under_way = peer.current != nullptr || peer.current_kept != nullptr;
    if (!under_way && !begin_message(peer, *slot)) break;
    deliver(peer, *slot);
    peer.in->freed.store(++peer.read, std::memory_order_release);
    moved = true;
  }
  if (moved) peers_.wake(bit(peer.rank));
  return moved;
}

// Copies messages that wait in the memory of their sender, who may be waiting for that before it goes on.
bool Messages::keep_in_place(Peer& peer) {
  bool moved = false;
  for (Kept& kept : peer.kept) {
    if (kept.place == 0 || !can_keep(kept.total)) continue;
    kept.bytes = std::make_unique_for_overwrite<std::byte[]>(kept.total);
    kept_bytes_ += kept.total;
    read_in_place(peer, kept.place, kept.ticket, kept.bytes.get(), kept.total, nullptr);
    kept.place = 0;
    kept.arrived = kept.total;
    moved = true;
  }
  return moved;
}

bool Messages::progress() {
  peers_.check();
  bool moved = false;
  if (make_room_) {
    for (auto& peer : of_rank_) {
      if (peer->rank == rank_) continue;
      moved |= pull(*peer);
      moved |= keep_in_place(*peer);
      update_masks(*peer);
    }
    make_room_ = false;
  }
  for_bits(receiving_ | sending_, [&](int rank) {
    Peer& peer = *of_rank_[rank];
    if (!peer.sends.empty()) moved |= push(peer);
    if (peer.tickets != 0) moved |= collect_taken(peer);
    if ((receiving_ & bit(rank)) != 0) moved |= pull(peer);
    update_masks(peer);
  });
  return moved;
}

// Whether a message from this peer is there that can go anywhere.
bool Messages::wants(const Peer& peer) const {
  const Slot* slot = peer.fresh();
  if (slot == nullptr) return false;
  return peer.current != nullptr || peer.current_kept != nullptr || slot->place != 0 ||
         peer.receives.find(slot->stream) != nullptr || can_keep(slot->total);
}

bool Messages::ready() const {
  for (uint64_t mask = receiving_; mask != 0; mask &= mask - 1) {
    if (wants(*of_rank_[std::countr_zero(mask)])) return true;
  }
  for (uint64_t mask = sending_; mask != 0; mask &= mask - 1) {
    const Peer& peer = *of_rank_[std::countr_zero(mask)];
    if (!peer.sends.empty() && peer.out->freed.load(std::memory_order_relaxed) != peer.freed) return true;
    for (uint32_t t = peer.tickets; t != 0; t &= t - 1) {
      const int ticket = std::countr_zero(t);
      if (peer.out->taken[ticket].load(std::memory_order_relaxed) == peer.ticket_uses[ticket]) return true;
    }
  }
  if (!make_room_) return false;
  for (const auto& peer : of_rank_) {
    if (peer->rank == rank_) continue;
    if (wants(*peer)) return true;
    for (const Kept& kept : peer->kept) {
      if (kept.place != 0 && can_keep(kept.total)) return true;
    }
  }
  return false;
}

}  // namespace trireme::comm::shm
