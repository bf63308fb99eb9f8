// Messages between two ranks through the rings of layout.h. A message longer than a slot is cut in
// fragments; one that lies in the sender's heap is not copied at all but read there by the receiver, who
// then tells the sender so. The receiver copies or combines from the ring straight to the destination.
// Messages that nobody asked for yet stay in the ring; they are moved to memory of this rank only when a
// message behind them is wanted, or when the rank has nothing better to do, and only up to a limit.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "trireme/comm/transport/shm/peers.h"

namespace trireme::comm::shm {

class Messages {
 public:
  Messages(const Segments& segments, Peers& peers, int rank, Counters& counters);
  ~Messages();

  void send(int peer, Label label, std::span<const std::byte> bytes, Request& request);
  void receive(int peer, Label label, std::span<std::byte> into, Combine combine, Request& request);

  bool progress();
  // Whether progress() would do anything.
  bool ready() const;
  // Messages that nobody asked for are to be moved out of the rings from now on, until progress() did so.
  void make_room() { make_room_ = true; }
  // Ranks that something here waits for.
  uint64_t waiting_on() const { return receiving_ | sending_; }

 private:
  struct Kept;
  struct Peer;

  bool push(Peer& peer);
  bool push_in_place(Peer& peer, Request& request);
  bool push_fragments(Peer& peer, Request& request);
  bool collect_taken(Peer& peer);
  bool pull(Peer& peer);
  bool begin_message(Peer& peer, const Slot& slot);
  void deliver(Peer& peer, const Slot& slot);
  bool wants(const Peer& peer) const;
  bool can_keep(size_t bytes) const;
  bool keep_in_place(Peer& peer);
  void read_in_place(Peer& peer, uint64_t place, uint32_t ticket, std::byte* into, size_t bytes,
                     Combine combine);
  void finish(Request& request);
  void check_same(const Peer& peer, const Request& request, Label label, uint64_t total);
  void update_masks(const Peer& peer);

  Peers& peers_;
  int rank_;
  Counters& counters_;
  std::shared_ptr<Heap> heap_;
  std::vector<std::unique_ptr<Peer>> of_rank_;
  uint64_t receiving_ = 0;  // bit r: a receive from r is pending
  uint64_t sending_ = 0;    // bit r: a send to r is pending
  size_t kept_bytes_ = 0;
  bool make_room_ = false;
};

}  // namespace trireme::comm::shm
