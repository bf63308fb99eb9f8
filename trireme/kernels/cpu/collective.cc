// Collectives on tensors in the memory of the host.
#include <cstring>

#include "trireme/kernels/collective_kernels.h"

namespace trireme::cpu {
namespace {

struct HostMemory {
  // An empty part may have no memory at all, and memcpy takes no null pointer.
  static void copy(const KernelContext&, std::byte* to, const std::byte* from, size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  static void copy_rows(const KernelContext& context, std::byte* to, size_t to_pitch, const std::byte* from,
                        size_t from_pitch, size_t bytes, size_t rows) {
    for (size_t row = 0; row < rows; ++row)
      copy(context, to + row * to_pitch, from + row * from_pitch, bytes);
  }
  static void zero(const KernelContext&, std::byte* to, size_t bytes) {
    if (bytes > 0) std::memset(to, 0, bytes);
  }
};

}  // namespace

void add_collective(KernelTable& table) {
  CollectiveKernels<HostMemory>::add_to(table);
}

}  // namespace trireme::cpu
