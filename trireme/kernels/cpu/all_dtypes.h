// For kernels that move elements without looking into them.
#pragma once

#include <string_view>

#include "trireme/kernels/kernel.h"

namespace trireme::cpu {

inline constexpr DType kAllDTypes[] = {DType::f64, DType::f32, DType::f16, DType::bf16,
                                       DType::i64, DType::i32, DType::u8};

inline void add_for_all_dtypes(KernelTable& table, std::string_view op, Kernel kernel) {
  for (DType dtype : kAllDTypes) table.add(op, dtype, kernel);
}

}  // namespace trireme::cpu
