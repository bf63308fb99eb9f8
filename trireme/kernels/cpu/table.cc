// The list of all CPU kernels. Each file of this folder offers one function that adds its kernels to a
// table; to add a file, put its function's name into the list.
#include "trireme/kernels/kernel.h"

namespace trireme {
namespace cpu {

// clang-format off
#define TRIREME_CPU_KERNEL_FILES(X) \
  X(add_avg_pool2d) \
  X(add_batch_norm) \
  X(add_conv2d) \
  X(add_conv2d_grad_input) \
  X(add_conv2d_grad_weight) \
  X(add_max_pool2d)
// clang-format on

#define TRIREME_DECLARE(name) void name(KernelTable&);
TRIREME_CPU_KERNEL_FILES(TRIREME_DECLARE)
#undef TRIREME_DECLARE

}  // namespace cpu

const KernelTable& cpu_kernels() {
  static const KernelTable table = [] {
    KernelTable all;
#define TRIREME_ADD(name) cpu::name(all);
    TRIREME_CPU_KERNEL_FILES(TRIREME_ADD)
#undef TRIREME_ADD
    return all;
  }();
  return table;
}

}  // namespace trireme
