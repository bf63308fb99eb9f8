// See transport.h.
#include "trireme/comm/transport/transport.h"

#include <fmt/format.h>

#include <cstring>
#include <new>

#include "trireme/comm/collective/call.h"

namespace trireme::comm {
namespace {

constexpr std::align_val_t kPage{4096};

class HeapMemory final : public Memory {
 public:
  explicit HeapMemory(size_t bytes) : bytes_(bytes), data_(::operator new(bytes, kPage)) {
    std::memset(data_, 0, bytes);  // also makes the pages present
  }
  ~HeapMemory() override { ::operator delete(data_, kPage); }
  HeapMemory(const HeapMemory&) = delete;
  HeapMemory& operator=(const HeapMemory&) = delete;
  std::span<std::byte> bytes() override { return {static_cast<std::byte*>(data_), bytes_}; }

 private:
  size_t bytes_;
  void* data_;
};

}  // namespace

std::unique_ptr<Memory> heap_memory(size_t bytes) {
  return std::make_unique<HeapMemory>(bytes);
}

std::string calls_differ(int rank, uint64_t call, int other, uint64_t other_call) {
  // Lower rank first, so that the two ends say the same.
  if (other < rank) return calls_differ(other, other_call, rank, call);
  return fmt::format(
      "ranks {} and {} made different calls: rank {}: {}; rank {}: {}. All ranks of a group have to make the "
      "same calls in the same order; look for a collective inside a condition that depends on the rank",
      rank, other, rank, to_text(Call::unpack(call)), other, to_text(Call::unpack(other_call)));
}

std::string sizes_differ(int receiver, size_t expected_bytes, int sender, size_t sent_bytes, uint64_t call) {
  return fmt::format(
      "{}: rank {} sent {} bytes where rank {} expected {}. The calls agree, so their segment sizes or, in "
      "all_to_all, their counts do not",
      to_text(Call::unpack(call)), sender, sent_bytes, receiver, expected_bytes);
}

}  // namespace trireme::comm
