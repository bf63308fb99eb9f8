// The table of kernels; see kernel.h.
#include "trireme/kernels/kernel.h"

namespace trireme {

void KernelTable::add(std::string_view op, DType dtype, Kernel kernel) {
  const bool added = kernels_.try_emplace({std::string(op), dtype}, kernel).second;
  TRIREME_CHECK(added);
}

const Kernel* KernelTable::find(std::string_view op, DType dtype) const {
  const auto found = kernels_.find(std::pair(std::string(op), dtype));
  return found == kernels_.end() ? nullptr : &found->second;
}

}  // namespace trireme
