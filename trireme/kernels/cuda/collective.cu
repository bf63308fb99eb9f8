// Collectives on tensors in the memory of a GPU. The communicator that the executor hands over knows how to
// reach it (runtime/staged_communicator.h).
#include "trireme/kernels/collective_kernels.h"
#include "trireme/kernels/cuda/context.h"

namespace trireme::cuda {
namespace {

struct GpuMemory {
  static void copy(const KernelContext& context, std::byte* to, const std::byte* from, size_t bytes) {
    if (bytes > 0)
      check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_of(context)),
            "a copy on the device");
  }
  static void copy_rows(const KernelContext& context, std::byte* to, size_t to_pitch, const std::byte* from,
                        size_t from_pitch, size_t bytes, size_t rows) {
    if (bytes == 0 || rows == 0) return;
    if (rows == 1) return copy(context, to, from, bytes);
    check(cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, bytes, rows, cudaMemcpyDeviceToDevice,
                            stream_of(context)),
          "a copy of rows on the device");
  }
  static void zero(const KernelContext& context, std::byte* to, size_t bytes) {
    if (bytes > 0) check(cudaMemsetAsync(to, 0, bytes, stream_of(context)), "a fill with zeros");
  }
};

}  // namespace

void add_collective(KernelTable& table) {
  CollectiveKernels<GpuMemory>::add_to(table);
}

}  // namespace trireme::cuda
