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

void add_for_all_dtypes(KernelTable& table, std::string_view op, Kernel kernel) {
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32, DType::u8})
    table.add(op, dtype, kernel);
}

void add_for_all_formats(KernelTable& table, std::string_view op, Kernel kernel) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16}) table.add(op, dtype, kernel);
}

}  // namespace trireme
