// Making a rank's segment, and mapping those of the others: a rank tells its pid and descriptor, the others
// open them below /proc. That needs no names and no passing of descriptors, but the same pid namespace and
// the same user, and says so when they differ.
#include "trireme/comm/transport/shm/shared_memory.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace trireme::comm::shm {
namespace {

struct Address {
  int32_t pid = 0;
  int32_t fd = 0;
  uint64_t bytes = 0;
  std::array<uint64_t, 2> nonce{};
  cpu_set_t processors{};
};

// As much as the machine has, but all segments together must fit the 47 bits of a process's addresses.
size_t segment_bytes(int ranks) {
  const size_t physical = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  const size_t most = (size_t{1} << 45) / ranks;
  constexpr size_t kGiB = size_t{1} << 30;
  return std::max(std::min(physical, most) / kGiB, size_t{1}) * kGiB + SharedMemory::heap_begin(ranks);
}

int make_memory(size_t bytes) {
  const int fd = memfd_create("trireme", MFD_CLOEXEC);
  if (fd < 0) throw_error("shm: memfd_create failed: {}", std::strerror(errno));
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    const int error = errno;
    close(fd);
    throw_error("shm: a shared segment of {} bytes could not be made: {}; is `ulimit -f` set?", bytes,
                std::strerror(error));
  }
  return fd;
}

std::shared_ptr<SharedMemory> open_segment(int rank, const Address& address) {
  const std::string path = fmt::format("/proc/{}/fd/{}", address.pid, address.fd);
  constexpr std::string_view kHint =
      "ranks over shm must be processes of one user in one pid namespace (one host or container); use "
      "--transport tcp between others";
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    throw_error("shm: the memory of rank {} could not be opened at {}: {}; {}", rank, path,
                std::strerror(errno), kHint);
  }
  struct stat status {};
  std::shared_ptr<SharedMemory> segment;
  if (fstat(fd, &status) == 0 && static_cast<uint64_t>(status.st_size) == address.bytes) {
    segment = std::make_shared<SharedMemory>(fd, address.bytes);
  } else {
    close(fd);
  }
  if (segment == nullptr || segment->control().nonce != address.nonce) {
    throw_error("shm: {} is not the memory of rank {}; {}", path, rank, kHint);
  }
  return segment;
}

}  // namespace

size_t SharedMemory::heap_begin(int ranks) {
  constexpr size_t kAlign = size_t{2} << 20;
  return (sizeof(Control) + sizeof(Ring) * (ranks + 1) + kAlign - 1) / kAlign * kAlign;
}

SharedMemory::SharedMemory(int fd, size_t bytes) : fd_(fd), bytes_(bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (memory == MAP_FAILED) {
    const int error = errno;
    close(fd);
    throw_error("shm: {} bytes of address space for a rank's memory were refused: {}; is `ulimit -v` set?",
                bytes, std::strerror(error));
  }
  base_ = static_cast<std::byte*>(memory);
  madvise(base_, bytes_, MADV_DONTDUMP);  // a core of one rank need not hold the memory of all
}

SharedMemory::~SharedMemory() {
  munmap(base_, bytes_);
  close(fd_);
}

Ring& SharedMemory::ring(int sender) const {
  constexpr size_t kFirst = (sizeof(Control) + 4095) / 4096 * 4096;
  return reinterpret_cast<Ring*>(base_ + kFirst)[sender];
}

Segments map_segments(Rendezvous& rendezvous) {
  const int ranks = rendezvous.ranks();
  const int rank = rendezvous.rank();
  if (ranks > kMaxRanks) {
    throw_error("shm: {} ranks on one host, at most {} are supported; use --transport tcp", ranks, kMaxRanks);
  }
  Address mine{.pid = getpid(), .bytes = segment_bytes(ranks)};
  const int fd = make_memory(mine.bytes);
  mine.fd = fd;
  auto own = std::make_shared<SharedMemory>(fd, mine.bytes);
  if (getrandom(mine.nonce.data(), sizeof mine.nonce, 0) != sizeof mine.nonce) {
    throw_error("shm: getrandom failed: {}", std::strerror(errno));
  }
  own->control().nonce = mine.nonce;
  if (sched_getaffinity(0, sizeof mine.processors, &mine.processors) != 0) CPU_SET(rank, &mine.processors);

  const std::vector<std::string> all =
      rendezvous.exchange("shm segments", {reinterpret_cast<const char*>(&mine), sizeof mine});
  Segments segments;
  cpu_set_t processors{};
  for (int r = 0; r < ranks; ++r) {
    Address address;
    if (all[r].size() != sizeof address) {
      throw_error(
          "shm: rank {} sent {} bytes for the address of its memory, {} expected; do all ranks run "
          "the same build?",
          r, all[r].size(), sizeof address);
    }
    std::memcpy(&address, all[r].data(), sizeof address);
    segments.of_rank.push_back(r == rank ? own : open_segment(r, address));
    segments.pids.push_back(address.pid);
    CPU_OR(&processors, &processors, &address.processors);
  }
  segments.processors = CPU_COUNT(&processors);
  segments.heap = std::make_shared<Heap>(own, fd, SharedMemory::heap_begin(ranks));
  // Nobody may close its descriptor before all have opened it.
  rendezvous.exchange("shm mapped", "");
  return segments;
}

}  // namespace trireme::comm::shm
