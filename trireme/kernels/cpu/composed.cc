// A CPU does the parts of composed ops one after another; see composed.h. No program for a CPU has them, so
// that the lists which running one makes do not count.
#include "trireme/kernels/composed.h"

#include <utility>

namespace trireme::cpu {

void add_composed(KernelTable& table) {
  const auto add = [&]<size_t... kOps>(std::index_sequence<kOps...>) {
    (add_for_all_formats(
         table, composed_ops()[kOps].op,
         {ComposedKernel<cpu_kernels, kOps>::run, ComposedKernel<cpu_kernels, kOps>::workspace}),
     ...);
  };
  add(std::make_index_sequence<kComposedOpCount>());
}

}  // namespace trireme::cpu
