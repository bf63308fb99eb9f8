// The memory that ranks share: one memfd of each rank, mapped by all. It has no name, so nothing is left
// behind however a rank ends; it is sparse, so its size costs nothing until it is used; and since the whole
// of it is mapped at setup, memory that a rank allocates later is in reach of the others at once.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "trireme/comm/transport/shm/layout.h"
#include "trireme/comm/transport/transport.h"
#include "trireme/comm/wire/rendezvous.h"

namespace trireme::comm::shm {

// One rank's segment, as this process sees it.
class SharedMemory {
 public:
  SharedMemory(int fd, size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::byte* base() const { return base_; }
  std::byte* at(size_t place) const { return base_ + place; }
  size_t bytes() const { return bytes_; }
  Control& control() const { return *reinterpret_cast<Control*>(base_); }
  Ring& ring(int sender) const;

  static size_t heap_begin(int ranks);

 private:
  int fd_;
  size_t bytes_;
  std::byte* base_;
};

// Allocates from the heap of this rank's own segment: whole pages, first fit.
class Heap : public std::enable_shared_from_this<Heap> {
 public:
  Heap(std::shared_ptr<SharedMemory> segment, int fd, size_t begin);
  ~Heap();
  // As Transport::allocate. The memory outlives the heap's other owners. Throws Error when there is none.
  std::unique_ptr<Memory> allocate(size_t bytes);
  // From now on what is freed keeps its pages: this rank leaves, and others may still read.
  void close() { closed_ = true; }
  // Where in the segment these bytes lie; 0 when they are not in it.
  size_t place_of(const std::byte* data, size_t bytes) const;

 private:
  class Extent;
  void release(size_t place, size_t bytes);

  std::shared_ptr<SharedMemory> segment_;
  int fd_;
  size_t begin_;
  std::mutex mutex_;  // a Memory may be freed by any thread
  std::atomic<bool> closed_ = false;
  std::map<size_t, size_t> free_;  // place → bytes, neighbours merged
};

// Everything that setup makes: collective over all ranks.
struct Segments {
  std::vector<std::shared_ptr<SharedMemory>> of_rank;
  std::shared_ptr<Heap> heap;  // this rank's own
  std::vector<int> pids;
  int processors = 1;  // that the ranks may run on, all together: each may be bound to its own
};
Segments map_segments(Rendezvous& rendezvous);

}  // namespace trireme::comm::shm
