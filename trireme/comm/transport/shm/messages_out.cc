// Sending: into the ring of the receiver, or a word there of where the message lies.
#include <bit>
#include <cstring>

#include "trireme/comm/transport/shm/messages_peer.h"

namespace trireme::comm::shm {
namespace {

// From here on a message that can be read where it lies is: below, the copy costs less than the
// acknowledgement.
constexpr size_t kInPlaceBytes = 16 * 1024;
}  // namespace

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

}  // namespace trireme::comm::shm
