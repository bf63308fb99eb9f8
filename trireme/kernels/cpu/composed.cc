// A CPU does the parts of composed ops one after another; see composed.h. No program for a CPU has them, so
// that the lists which running one makes do not count.
#include "trireme/kernels/composed.h"

#include <utility>

namespace trireme::cpu {

void add_composed(KernelTable& table) {
  const auto add = [&]<size_t... kOps>(std::index_sequence<kOps...>) {
    const auto one = [&](std::string_view op, Kernel kernel) {
      for (DType dtype : {DType::f32, DType::bf16, DType::f16}) table.add(op, dtype, kernel);
    };
    (one(composed_ops()[kOps].op,
         {ComposedKernel<cpu_kernels, kOps>::run, ComposedKernel<cpu_kernels, kOps>::workspace}),
     ...);
  };
  add(std::make_index_sequence<kComposedOpCount>());
}

}  // namespace trireme::cpu
