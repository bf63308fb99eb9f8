// The heap of a rank's segment. Freed pages are given back to the system by punching a hole, so the next
// allocation finds them zeroed.
#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "trireme/comm/transport/shm/shared_memory.h"

namespace trireme::comm::shm {
namespace {

constexpr size_t kPage = 4096;

size_t pages(size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

class Heap::Extent : public Memory {
 public:
  Extent(std::shared_ptr<Heap> heap, size_t place, size_t bytes)
      : heap_(std::move(heap)), place_(place), bytes_(bytes) {}
  ~Extent() override { heap_->release(place_, pages(bytes_)); }
  std::span<std::byte> bytes() override { return {heap_->segment_->at(place_), bytes_}; }

 private:
  std::shared_ptr<Heap> heap_;
  size_t place_;
  size_t bytes_;
};

Heap::Heap(std::shared_ptr<SharedMemory> segment, int fd, size_t begin)
    : segment_(std::move(segment)), fd_(fd), begin_(begin) {
  free_[begin] = segment_->bytes() - begin;
}

Heap::~Heap() = default;

std::unique_ptr<Memory> Heap::allocate(size_t bytes) {
  const size_t wanted = pages(std::max(bytes, size_t{1}));
  size_t place = 0;
  {
    const std::lock_guard lock(mutex_);
    auto extent = free_.begin();
    while (extent != free_.end() && extent->second < wanted) ++extent;
    if (extent == free_.end()) {
      throw_error("shm: {} bytes of shared memory asked for, the segment of {} bytes has no such gap left",
                  bytes, segment_->bytes());
    }
    place = extent->first;
    const size_t rest = extent->second - wanted;
    free_.erase(extent);
    if (rest > 0) free_[place + wanted] = rest;
  }
  auto memory = std::make_unique<Extent>(shared_from_this(), place, std::max(bytes, size_t{1}));
  std::byte* data = segment_->at(place);
  madvise(data, wanted, MADV_HUGEPAGE);  // heeded where the system's shmem_enabled is `advise`
  if (madvise(data, wanted, MADV_POPULATE_WRITE) != 0) {
    if (errno == ENOMEM || errno == EFAULT) {
      throw_error("shm: {} bytes of shared memory could not be had: {}", bytes, std::strerror(errno));
    }
    for (size_t i = 0; i < wanted; i += kPage) data[i] = std::byte{0};  // kernels before 5.14
  }
  return memory;
}

size_t Heap::place_of(const std::byte* data, size_t bytes) const {
  const std::byte* begin = segment_->at(begin_);
  const std::byte* end = segment_->at(segment_->bytes());
  if (data < begin || data >= end || bytes > static_cast<size_t>(end - data)) return 0;
  return static_cast<size_t>(data - segment_->base());
}

void Heap::release(size_t place, size_t bytes) {
  if (closed_) return;
  fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(place),
            static_cast<off_t>(bytes));
  const std::lock_guard lock(mutex_);
  const auto [freed, fresh] = free_.emplace(place, bytes);
  TRIREME_CHECK(fresh);
  const auto next = std::next(freed);
  if (next != free_.end() && freed->first + freed->second == next->first) {
    freed->second += next->second;
    free_.erase(next);
  }
  if (freed != free_.begin()) {
    const auto before = std::prev(freed);
    if (before->first + before->second == freed->first) {
      before->second += freed->second;
      free_.erase(freed);
    }
  }
}

}  // namespace trireme::comm::shm
