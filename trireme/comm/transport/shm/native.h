// Collectives of one group by direct access to the memory of its ranks, no messages. Three ways, by size and
// by where the buffers lie; the same order of additions, rank 0, 1, 2 … of the group, in all, so the bits are
// the same whichever is taken:
//   mail    small: every rank posts its contribution, every rank reduces all of them
//   direct  all buffers lie in shared memory: every rank reduces its slice of all buffers in place
//   staged  otherwise: the same by way of chunks in shared memory that stay in the cache
#pragma once

#include <span>
#include <vector>

#include "trireme/comm/transport/reduce.h"
#include "trireme/comm/transport/shm/native_layout.h"
#include "trireme/comm/transport/shm/peers.h"

namespace trireme::comm::shm {

// What the native path uses of its transport.
struct NativeParts {
  const Segments& segments;
  Peers& peers;
  Counters& counters;
  std::vector<class ShmNative*>& all;  // those that idle() has to watch
  std::vector<struct Retired>& retired;
};

// A rank's area in a group, and what it takes to find those of the others.
struct Setup {
  std::unique_ptr<Memory> area;
  uint64_t place = 0;            // of the area in this rank's segment
  std::vector<uint64_t> places;  // of those of all members, once the requests are done
  std::vector<Request> requests;
  bool done() const;
};

// What stays of a group that this rank has done with, until the others, who may be behind, have too.
struct Retired {
  std::unique_ptr<Setup> setup;
  bool free() const;
};

class ShmNative : public Native {
 public:
  // The members' places may still be on their way: operations wait for them.
  ShmNative(NativeParts parts, uint32_t group, std::span<const int> members, int me,
            std::unique_ptr<Setup> setup);
  ~ShmNative() override;

  bool offers(const Call& call) const override;
  void start(NativeOperation& operation) override;
  bool progress(NativeOperation& operation) override;

  // Whether progress() would do anything, and for which ranks it waits.
  bool ready() const;
  uint64_t waiting_on() const;

  uint32_t group() const { return group_; }
  uint64_t members() const { return mask_; }

  static size_t area_bytes(int ranks);

 private:
  struct Member {
    int rank;
    SharedMemory* segment;
    Area* area;         // null until all are known
    std::byte* buffer;  // its buffer in the direct way
  };
  struct Range {
    size_t begin;
    size_t size;
  };
  // A word that has to reach a value before anything can go on.
  struct Watch {
    const std::atomic<uint64_t>* word;
    uint64_t value;
    int rank;
  };
  enum class Phase : uint32_t { waiting, posted, direct, staged };

  bool connect();
  bool run();
  bool step(NativeOperation& operation);
  void choose(uint64_t word);
  void begin(NativeOperation& operation);
  bool open_mail(NativeOperation& operation);
  void finish_by_mail(NativeOperation& operation);
  void work_in_place();
  void begin_staged();
  bool run_staged(NativeOperation& operation);
  void stage(uint64_t chunk);
  void reduce(uint64_t chunk);
  void collect(uint64_t chunk);

  bool reduces() const;  // or only moves
  Range slice(int member) const;
  size_t chunk_size() const;
  Range chunk_of(int member, uint64_t chunk) const;
  Mail& mail(int member) const;
  std::byte* payload(int member) const;
  std::byte* staging(int member, uint64_t chunk, int for_member) const;
  std::byte* result(int member, uint64_t chunk, int for_member) const;
  bool reached(Counter Area::*counter, uint64_t value);
  void publish(Counter Area::*counter, uint64_t value);

  NativeParts parts_;
  uint32_t group_;
  uint64_t mask_ = 0;  // the other members
  int ranks_;
  int me_;              // position in the group
  size_t mail_limit_;   // what may go by mail,
  size_t always_mail_;  // and what does wherever it lies
  std::unique_ptr<Setup> setup_;
  std::vector<Member> members_;
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;

  NativeOperation* current_ = nullptr;
  std::vector<NativeOperation*> queue_;  // those after it; a deque would go on allocating
  std::vector<Watch> watches_;           // any of them lets it go on
  uint64_t started_ = 0;                 // operations
  uint64_t finished_ = 0;                // of the direct way
  uint64_t chunks_before_ = 0;           // of operations that ended

  // Of the operation under way.
  Call call_;
  uint64_t word_ = 0;  // the same, packed
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  uint64_t place_ = 0;  // of data_ in this rank's segment; 0: it is not there, or goes by mail wherever it is
  ManyReduce function_ = nullptr;
  uint64_t chunks_ = 0;
  uint64_t staged_ = 0;
  uint64_t reduced_ = 0;
  uint64_t collected_ = 0;
};

}  // namespace trireme::comm::shm
