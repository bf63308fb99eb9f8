// By /proc/PID/mem; see process_memory.h.
#include "trireme/chaos/process_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "trireme/base/error.h"

namespace trireme::chaos {
namespace {

constexpr std::byte kHighExponentBit{1 << 6};  // of the last byte of a float, little-endian

class MemoryFile {
 public:
  MemoryFile(pid_t process, int flags)
      : file_(open(fmt::format("/proc/{}/mem", process).c_str(), flags | O_CLOEXEC)) {}
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

struct Range {
  uint64_t begin, end;
};

// Of private memory that may be written. Not what is larger than the machine's memory: that is reserved, not
// used.
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
  return MemoryFile(process, O_RDONLY).read(address, to, bytes) == bytes;
}

std::string read_text(pid_t process, uint64_t address) {
  std::string text(4096, '\0');
  text.resize(MemoryFile(process, O_RDONLY).read(address, text.data(), text.size()));
  return text.substr(0, text.find('\0'));
}

std::vector<uint64_t> flip_bit_of(pid_t process, std::span<const std::byte> pattern) {
  const MemoryFile memory(process, O_RDWR);
  if (!memory.is_open())
    throw_error(
        "the memory of process {} can not be opened: {}; flips in memory need the right to trace processes",
        process, std::strerror(errno));
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

bool is_bit_set(pid_t process, uint64_t address) {
  std::byte byte{};
  return read_memory(process, address, &byte, 1) && (byte & kHighExponentBit) != std::byte{};
}

}  // namespace trireme::chaos
