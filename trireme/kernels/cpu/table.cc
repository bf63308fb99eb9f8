// The list of all CPU kernels: one function per file of this folder, in alphabetical order.
#include "trireme/kernels/cpu/table.h"

#include "trireme/kernels/kernel.h"

namespace trireme {

const KernelTable& cpu_kernels() {
  static const KernelTable table = [] {
    KernelTable t;
    for (auto add : cpu::kAll) add(t);
    return t;
  }();
  return table;
}

}  // namespace trireme
