// The staged way: three things happen to every chunk, and a rank does whichever it can. It copies what it has
// for the slices of others into its staging; it reduces its own slice from the staging of all and leaves the
// result in its buffer and its staging; it collects the results of the others. Counters say how far each rank
// is, and a place in the staging is used again when all have passed it.
#include <cstring>

#include "trireme/comm/transport/shm/native.h"

namespace trireme::comm::shm {
namespace {

// A rank's staging, all chunks together, is to stay in its second-level cache.
size_t chunk_bytes(int ranks) {
  return ranks <= 2 ? 32 * 1024 : ranks <= 8 ? 16 * 1024 : 8 * 1024;
}

}  // namespace

size_t ShmNative::chunk_size() const {
  return chunk_bytes(ranks_);
}

size_t ShmNative::area_bytes(int ranks) {
  return sizeof(Area) + kStages * (ranks + 1) * chunk_bytes(ranks);
}

std::byte* ShmNative::staging(const Member& member, uint64_t chunk, int for_member) const {
  std::byte* begin = reinterpret_cast<std::byte*>(member.area + 1);
  return begin + ((chunks_before_ + chunk) % kStages * ranks_ + for_member) * chunk_size();
}

std::byte* ShmNative::result(const Member& member, uint64_t chunk) const {
  std::byte* begin = reinterpret_cast<std::byte*>(member.area + 1) + kStages * ranks_ * chunk_size();
  return begin + (chunks_before_ + chunk) % kStages * chunk_size();
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
  // A place is free for chunk k when all have passed chunk k - kStages.
  const auto reusable = [&](Counter Area::*passed, uint64_t chunk) {
    const uint64_t next = chunks_before_ + chunk + 1;
    return next <= kStages || reached(passed, next - kStages);
  };
  for (bool again = true; again;) {
    again = false;
    watches_.clear();
    if (staged_ < chunks_ && staged_ < reduced_ + 2 && reusable(&Area::reduced, staged_)) {
      stage(staged_++);
      again = true;
    }
    if (reduced_ < staged_ && reached(&Area::staged, chunks_before_ + reduced_ + 1) &&
        reusable(&Area::collected, reduced_)) {
      reduce(reduced_++);
      again = true;
    }
    if (collected_ < reduced_ && reached(&Area::reduced, chunks_before_ + collected_ + 1)) {
      collect(collected_++);
      again = true;
    }
    moved |= again;
  }
  if (collected_ == chunks_) {
    chunks_before_ += chunks_;
    operation.done = true;
  }
  return moved;
}

void ShmNative::stage(uint64_t chunk) {
  if (reduces()) {
    for (int m = 0; m < ranks_; ++m) {
      const Range range = chunk_of(m, chunk);
      if (m == me_ || range.size == 0) continue;
      std::byte* to = staging(members_[me_], chunk, m);
      std::memcpy(to, data_ + range.begin, range.size);
      push_out(to, range.size);
    }
  }
  publish(&Area::staged, chunks_before_ + chunk + 1);
}

void ShmNative::reduce(uint64_t chunk) {
  const Range range = chunk_of(me_, chunk);
  std::byte* const own = data_ + range.begin;
  std::byte* const shared = result(members_[me_], chunk);
  const std::array<std::byte*, 2> both = {own, shared};
  const bool gathered = call_.collective != Collective::reduce_scatter;
  if (range.size > 0 && reduces()) {
    for (int m = 0; m < ranks_; ++m) inputs_[m] = m == me_ ? own : staging(members_[m], chunk, me_);
    function_(inputs_, std::span(both).first(gathered ? 2 : 1), range.size);
    parts_.counters.bytes_read_directly += (ranks_ - 1) * range.size;
  } else if (range.size > 0) {
    std::memcpy(shared, own, range.size);
  }
  if (gathered) push_out(shared, range.size);
  publish(&Area::reduced, chunks_before_ + chunk + 1);
}

void ShmNative::collect(uint64_t chunk) {
  for (int m = 0; m < ranks_ && call_.collective != Collective::reduce_scatter; ++m) {
    const Range range = chunk_of(m, chunk);
    if (m == me_ || range.size == 0) continue;
    std::memcpy(data_ + range.begin, result(members_[m], chunk), range.size);
    parts_.counters.bytes_read_directly += range.size;
  }
  publish(&Area::collected, chunks_before_ + chunk + 1);
}

}  // namespace trireme::comm::shm
