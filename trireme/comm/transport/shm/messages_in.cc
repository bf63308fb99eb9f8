// Receiving: from the ring, or from where the message lies, to the destination; and keeping what came too
// early.
#include <cstring>

#include "trireme/comm/transport/shm/messages_peer.h"
#include "trireme/comm/transport/transport.h"

namespace trireme::comm::shm {
namespace {

// What may be kept for receives that were not posted yet, of all peers together.
constexpr size_t kKeptBytes = size_t{64} << 20;

const std::byte* payload_of(const Slot& slot) {
  return slot.total <= kInlineBytes ? slot.small.data() : slot.payload.data();
}

}  // namespace

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

}  // namespace trireme::comm::shm
