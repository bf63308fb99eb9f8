// The list of all CPU kernels. Each file of this folder offers one function that adds its kernels to a
// table; to add a file, put its function's name into the list.
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <utility>

#include "trireme/kernels/composed.h"

namespace trireme {
namespace cpu {

// clang-format off
#define TRIREME_CPU_KERNEL_FILES(X) \
  X(add_attention) \
  X(add_attention_grad) \
  X(add_attention_merge) \
  X(add_avg_pool2d) \
  X(add_batch_norm) \
  X(add_binary) \
  X(add_bits) \
  X(add_cast) \
  X(add_collective) \
  X(add_concat) \
  X(add_conv2d) \
  X(add_conv2d_grad_input) \
  X(add_conv2d_grad_weight) \
  X(add_cross_entropy) \
  X(add_ctc_loss) \
  X(add_dispatch) \
  X(add_dropout) \
  X(add_embedding) \
  X(add_matmul) \
  X(add_matmul_slots) \
  X(add_max_grad) \
  X(add_max_pool2d) \
  X(add_norm) \
  X(add_optimizer) \
  X(add_orthogonalise) \
  X(add_svd_sample) \
  X(add_quantise) \
  X(add_reduce) \
  X(add_reshape) \
  X(add_residual) \
  X(add_rice) \
  X(add_rope) \
  X(add_route) \
  X(add_select) \
  X(add_softmax) \
  X(add_sparse) \
  X(add_unary)
// clang-format on

#define TRIREME_DECLARE(name) void name(KernelTable&);
TRIREME_CPU_KERNEL_FILES(TRIREME_DECLARE)
#undef TRIREME_DECLARE
void add_widened(KernelTable&);  // comes last

namespace {

// The parts of composed ops one after another; see composed.h. No program for a CPU has them, so that the
// lists which running one makes do not count.
void add_composed(KernelTable& table) {
  const auto add = [&]<size_t... kOps>(std::index_sequence<kOps...>) {
    (add_for_all_formats(
         table, composed_ops()[kOps].op,
         {ComposedKernel<cpu_kernels, kOps>::run, ComposedKernel<cpu_kernels, kOps>::workspace}),
     ...);
  };
  add(std::make_index_sequence<kComposedOpCount>());
}

}  // namespace

}  // namespace cpu

const KernelTable& cpu_kernels() {
  static const KernelTable table = [] {
    KernelTable all;
#define TRIREME_ADD(name) cpu::name(all);
    TRIREME_CPU_KERNEL_FILES(TRIREME_ADD)
#undef TRIREME_ADD
    cpu::add_composed(all);
    cpu::add_widened(all);
    return all;
  }();
  return table;
}

std::string simd_target() {
  // Of the targets that this file was built for and this CPU has, the best is the lowest bit.
  const int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  return usable == 0 ? "scalar" : hwy::TargetName(usable & -usable);
}

}  // namespace trireme
