// The staged way: three things happen to every chunk, and a rank does whichever it can. It copies what it has
// for the slices of others to its staging; it reduces its own slice from the staging of all and leaves the
// result in its buffer and in staging; it collects the results of the others. A place is used again by who
// has read it last, so no other counters are needed, and its lines are where they will be written (see
// payload()).
#include <algorithm>
#include <cstring>

#include "trireme/comm/transport/shm/native.h"

namespace trireme::comm::shm {
namespace {

// Both ends of a pair's staging are to stay in their second-level caches.
size_t chunk_bytes(int ranks) {
  return ranks <= 2 ? 64 * 1024 : ranks <= 8 ? 16 * 1024 : 8 * 1024;
}

// Whether results go back where the contributions lay, one copy for each rank, rather than to one place that
// all read.
bool returns_in_place(int ranks) {
  return ranks <= 4;
}

}  // namespace

size_t ShmNative::chunk_size() const {
  return chunk_bytes(ranks_);
}

size_t ShmNative::area_bytes(int ranks) {
  return sizeof(Area) + kStages * ranks * chunk_bytes(ranks);
}

// In a member's area: what it has for the slice of another; for itself: a result for all.
std::byte* ShmNative::staging(int member, uint64_t chunk, int for_member) const {
  std::byte* begin = reinterpret_cast<std::byte*>(members_[member].area + 1);
  return begin + ((chunks_before_ + chunk) % kStages * ranks_ + for_member) * chunk_size();
}

// Where a member finds a chunk of another's result.
std::byte* ShmNative::result(int of_member, uint64_t chunk, int for_member) const {
  return reduces() && returns_in_place(ranks_) ? staging(for_member, chunk, of_member)
                                               : staging(of_member, chunk, of_member);
}

ShmNative::Range ShmNative::chunk_of(int member, uint64_t chunk) const {
  const Range whole = slice(member);
  const size_t begin = std::min(chunk * chunk_size(), whole.size);
  return {whole.begin + begin, std::min(chunk_size(), whole.size - begin)};
}

void ShmNative::begin_staged() {
  size_t longest = 0;
  for (int m = 0; m < ranks_; ++m) longest = std::max(longest, slice(m).size);
  chunks_ = (longest + chunk_size() - 1) / chunk_size();
  staged_ = reduced_ = collected_ = 0;
}

bool ShmNative::run_staged(NativeOperation& operation) {
  bool moved = false;
  for (bool again = true; again; moved |= again) {
    again = false;
    watches_.clear();
    // No more than kStages ahead of what was collected; two suffice to keep both ends busy.
    if (staged_ < chunks_ && staged_ < collected_ + kStages && staged_ < reduced_ + 2) {
      stage(staged_++);
      again = true;
    }
    if (reduced_ < staged_ && reached(&Area::staged, chunks_before_ + reduced_ + 1)) {
      reduce(reduced_++);
      again = true;
    }
    if (collected_ < reduced_ && reached(&Area::reduced, chunks_before_ + collected_ + 1)) {
      collect(collected_++);
      again = true;
    }
  }
  if (collected_ == chunks_) {
    chunks_before_ += chunks_;
    operation.done = true;
  }
  return moved;
}

void ShmNative::stage(uint64_t chunk) {
  for (int m = 0; m < ranks_ && reduces(); ++m) {
    const Range range = chunk_of(m, chunk);
    if (m != me_ && range.size > 0) {
      std::memcpy(staging(me_, chunk, m), data_ + range.begin, range.size);
    }
  }
  publish(&Area::staged, chunks_before_ + chunk + 1);
}

void ShmNative::reduce(uint64_t chunk) {
  const Range range = chunk_of(me_, chunk);
  std::byte* const own = data_ + range.begin;
  if (range.size > 0 && !reduces()) {
    std::memcpy(result(me_, chunk, me_), own, range.size);
  } else if (range.size > 0) {
    outputs_.assign(1, own);
    for (int m = 0; m < ranks_; ++m) {
      inputs_[m] = m == me_ ? own : staging(m, chunk, me_);
      if (m != me_ && call_.collective == Collective::all_reduce) {
        std::byte* const to = result(me_, chunk, m);
        if (outputs_.back() != to) outputs_.push_back(to);
      }
    }
    function_(inputs_, outputs_, range.size);
    parts_.counters.bytes_read_directly += (ranks_ - 1) * range.size;
  }
  publish(&Area::reduced, chunks_before_ + chunk + 1);
}

void ShmNative::collect(uint64_t chunk) {
  for (int m = 0; m < ranks_ && call_.collective != Collective::reduce_scatter; ++m) {
    const Range range = chunk_of(m, chunk);
    if (m == me_ || range.size == 0) continue;
    std::memcpy(data_ + range.begin, result(m, chunk, me_), range.size);
    parts_.counters.bytes_read_directly += range.size;
  }
}

}  // namespace trireme::comm::shm
