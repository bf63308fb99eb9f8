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

constexpr int kShiftTag = 4095;  // the last that transports have room for

// The receive is posted first: what a neighbour sends then has a place to go to.

void shift(const KernelContext& context) {
  const TensorView &x = context.inputs[0], &y = context.outputs[0];
  if (x.bytes() == 0) return;
  TRIREME_CHECK(context.communicator != nullptr);
  Communicator& communicator = *context.communicator;
  auto *const from = static_cast<std::byte*>(x.data), *const to = static_cast<std::byte*>(y.data);
  const auto bytes = static_cast<int64_t>(x.bytes());
  communicator.start_receive(static_cast<int>(context.attrs.integer("from")), to, bytes, kShiftTag);
  communicator.start_send(static_cast<int>(context.attrs.integer("to")), from, bytes, kShiftTag);
  communicator.wait(to);
  communicator.wait(from);
}

}  // namespace

void add_collective(KernelTable& table) {
  CollectiveKernels<HostMemory>::add_to(table);
  add_for_all_dtypes(table, "shift", {.run = shift});
}

}  // namespace trireme::cpu
