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
void start_shift(const KernelContext& context, const std::byte* goes, std::byte* comes, size_t bytes) {
  TRIREME_CHECK(context.communicator != nullptr);
  const auto rank = [&](const char* which) { return static_cast<int>(context.attrs.integer(which)); };
  context.communicator->start_receive(rank("from"), comes, static_cast<int64_t>(bytes), kShiftTag);
  context.communicator->start_send(rank("to"), goes, static_cast<int64_t>(bytes), kShiftTag);
}
void wait_for_shift(const KernelContext& context, const std::byte* goes, const std::byte* comes) {
  context.communicator->wait(comes);
  context.communicator->wait(goes);
}

void shift(const KernelContext& context) {
  const TensorView &x = context.inputs[0], &y = context.outputs[0];
  if (x.bytes() == 0) return;
  auto *const goes = static_cast<std::byte*>(x.data), *const comes = static_cast<std::byte*>(y.data);
  start_shift(context, goes, comes, x.bytes());
  wait_for_shift(context, goes, comes);
}

// Under way in between is a tensor of both: first what goes, then what comes.
void shift_start(const KernelContext& context) {
  const TensorView &x = context.inputs[0], &both = context.outputs[0];
  if (x.bytes() == 0) return;
  auto* const goes = static_cast<std::byte*>(both.data);
  HostMemory::copy(context, goes, static_cast<const std::byte*>(x.data), x.bytes());
  start_shift(context, goes, goes + x.bytes(), x.bytes());
}
void shift_wait(const KernelContext& context) {
  const TensorView &both = context.inputs[0], &y = context.outputs[0];
  if (y.bytes() == 0) return;
  auto* const goes = static_cast<const std::byte*>(both.data);
  wait_for_shift(context, goes, goes + y.bytes());
  HostMemory::copy(context, static_cast<std::byte*>(y.data), goes + y.bytes(), y.bytes());
}

}  // namespace

void add_collective(KernelTable& table) {
  CollectiveKernels<HostMemory>::add_to(table);
  add_for_all_dtypes(table, "shift", {.run = shift});
  add_for_all_dtypes(table, "shift_start", {.run = shift_start});
  add_for_all_dtypes(table, "shift_wait", {.run = shift_wait});
}

}  // namespace trireme::cpu
