// Page-aligned, zeroed memory from the heap.
#include "trireme/comm/transport/heap_memory.h"

#include <cstring>
#include <new>

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

}  // namespace trireme::comm
