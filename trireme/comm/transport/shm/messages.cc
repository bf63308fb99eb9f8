// What moves and what could move, over all peers; see messages.h.
#include "trireme/comm/transport/shm/messages.h"

#include "trireme/comm/transport/shm/messages_peer.h"

namespace trireme::comm::shm {

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
