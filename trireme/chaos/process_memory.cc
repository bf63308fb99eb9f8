// By /proc/PID/mem; see process_memory.h.
#include "trireme/chaos/process_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "trireme/base/error.h"

namespace trireme::chaos {
namespace {

constexpr size_t kPageBytes = 4096;                    // or a part of one
constexpr uint64_t kMostOfRange = uint64_t{64} << 20;  // the jobs are small
constexpr size_t kAround = 8;                          // floats beside one another that all change
constexpr std::byte kHighExponentBit{1 << 6};          // of the last byte of a float, little-endian

class MemoryFile {
 public:
  // `what`: a file of the process whose offsets are addresses, or follow from them.
  MemoryFile(pid_t process, std::string_view what, int flags)
      : file_(open(fmt::format("/proc/{}/{}", process, what).c_str(), flags | O_CLOEXEC)) {}
  ~MemoryFile() {
    if (file_ >= 0) close(file_);
  }
  MemoryFile(const MemoryFile&) = delete;
  bool is_open() const { return file_ >= 0; }
  // How many bytes there are up to the end of what is mapped.
  size_t read(uint64_t address, void* to, size_t bytes) const {
    const ssize_t got = file_ < 0 ? -1 : pread(file_, to, bytes, static_cast<off_t>(address));
    return got < 0 ? 0 : static_cast<size_t>(got);
  }
  bool write(uint64_t address, const void* from, size_t bytes) const {
    return pwrite(file_, from, bytes, static_cast<off_t>(address)) == static_cast<ssize_t>(bytes);
  }

 private:
  int file_;
};

[[noreturn]] void throw_no_right(pid_t process) {
  throw_error(
      "the memory of process {} can not be opened: {}; flips in memory need the right to trace processes",
      process, std::strerror(errno));
}

struct Range {
  uint64_t begin, end;
};

// Of private memory that may be written. Not what is larger than the machine's memory: that
// is reserved, not used.
std::vector<Range> writable_ranges(pid_t process) {
  const uint64_t most =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::ifstream maps(fmt::format("/proc/{}/maps", process));
  std::vector<Range> ranges;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    Range range{};
    char dash = 0;
    std::string rights;
    if (words >> std::hex >> range.begin >> dash >> range.end >> rights && rights.starts_with("rw") &&
        rights.ends_with("p") && range.end - range.begin <= most)
      ranges.push_back(range);
  }
  return ranges;
}

// What may be a weight, a gradient or an activation, as most numbers of other kinds are not: small integers
// look like denormal floats, and addresses like none of these sizes.
bool is_usual(float value) {
  const float size = std::abs(value);
  return size > 1e-12f && size < 1e3f;
}

// The pages of a process that are there, at one moment, by their addresses. Others are reserved, and would
// take memory to read.
using Page = std::array<float, kPageBytes / sizeof(float)>;
using Snapshot = std::map<uint64_t, Page>;

bool is_there(const MemoryFile& pages, uint64_t address) {
  static const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  constexpr uint64_t kPresent = uint64_t{1} << 63;
  uint64_t entry = 0;
  return pages.read(address / page_bytes * sizeof entry, &entry, sizeof entry) == sizeof entry &&
         (entry & kPresent) != 0;
}

Snapshot snapshot_of(pid_t process) {
  const MemoryFile memory(process, "mem", O_RDONLY), pages(process, "pagemap", O_RDONLY);
  if (!memory.is_open() || !pages.is_open()) throw_no_right(process);
  Snapshot snapshot;
  for (const Range& range : writable_ranges(process)) {
    const uint64_t end = std::min(range.end, range.begin + kMostOfRange);
    for (uint64_t address = range.begin; address < end; address += kPageBytes) {
      Page page;
      if (is_there(pages, address) && memory.read(address, page.data(), sizeof page) == sizeof page)
        snapshot[address] = page;
    }
  }
  return snapshot;
}

}  // namespace

pid_t process_of(pid_t thread) {
  std::ifstream status(fmt::format("/proc/{}/status", thread));
  for (std::string word; status >> word;) {
    pid_t process = 0;
    if (word == "Tgid:" && status >> process) return process;
  }
  return thread;
}

bool read_memory(pid_t process, uint64_t address, void* to, size_t bytes) {
  return MemoryFile(process, "mem", O_RDONLY).read(address, to, bytes) == bytes;
}

std::string read_text(pid_t process, uint64_t address) {
  std::string text(4096, '\0');
  text.resize(MemoryFile(process, "mem", O_RDONLY).read(address, text.data(), text.size()));
  return text.substr(0, text.find('\0'));
}

std::vector<uint64_t> flip_bit_of(pid_t process, std::span<const std::byte> pattern) {
  const MemoryFile memory(process, "mem", O_RDWR);
  if (!memory.is_open()) throw_no_right(process);
  constexpr size_t kHighByte = 3;  // of a float
  const size_t offset = pattern.size() / 2 / sizeof(float) * sizeof(float) + kHighByte;
  // In pieces that overlap by as much as a pattern may begin in.
  constexpr size_t kPiece = size_t{16} << 20;
  std::vector<std::byte> bytes(kPiece + pattern.size() - 1);
  std::vector<uint64_t> flipped_at;
  for (const Range& range : writable_ranges(process)) {
    for (uint64_t from = range.begin; from < range.end; from += kPiece) {
      const size_t count =
          memory.read(from, bytes.data(), std::min<uint64_t>(bytes.size(), range.end - from));
      if (count == 0) break;
      for (size_t begin = 0; begin < count;) {
        const void* found = memmem(bytes.data() + begin, count - begin, pattern.data(), pattern.size());
        if (!found) break;
        const size_t at = static_cast<size_t>(static_cast<const std::byte*>(found) - bytes.data());
        const std::byte flipped = bytes[at + offset] ^ kHighExponentBit;
        const uint64_t address = from + at + offset;
        if (memory.write(address, &flipped, 1)) flipped_at.push_back(address);
        begin = at + pattern.size();
      }
    }
  }
  return flipped_at;
}

std::vector<uint64_t> changing_floats(pid_t process, const std::function<void()>& meanwhile) {
  const Snapshot before = snapshot_of(process);
  meanwhile();
  const Snapshot after = snapshot_of(process);
  std::vector<uint64_t> found;
  for (const auto& [address, was] : before) {
    const auto later = after.find(address);
    if (later == after.end()) continue;
    const Page& is = later->second;
    size_t run = 0;  // of floats that have changed, up to here
    for (size_t i = 0; i < is.size(); ++i) {
      run = is_usual(was[i]) && is_usual(is[i]) && was[i] != is[i] ? run + 1 : 0;
      if (run >= kAround) found.push_back(address + (i - kAround / 2) * sizeof(float));
    }
  }
  return found;
}

bool flip_bit_at(pid_t process, uint64_t address, int bit) {
  const MemoryFile memory(process, "mem", O_RDWR);
  uint32_t word = 0;
  if (memory.read(address, &word, sizeof word) != sizeof word) return false;
  word ^= uint32_t{1} << bit;
  return memory.write(address, &word, sizeof word);
}

bool is_bit_set(pid_t process, uint64_t address) {
  std::byte byte{};
  return read_memory(process, address, &byte, 1) && (byte & kHighExponentBit) != std::byte{};
}

}  // namespace trireme::chaos
