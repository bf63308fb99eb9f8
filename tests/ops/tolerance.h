// How far a kernel may be from the reference.
#pragma once

#include <algorithm>

#include "trireme/bench/cases/op_case.h"

namespace trireme::testing {

// Results in 16 bits may be off by the rounding of the result itself and of what the kernel stores on
// the way; inputs are rounded before the reference sees them.
inline double tolerance(const bench::OpCase& one, DType format) {
  switch (format) {
    case DType::bf16:
      return std::max(one.tolerance, 0x1p-7);
    case DType::f16:
      return std::max(one.tolerance, 0x1p-9);
    default:
      return one.tolerance;
  }
}

}  // namespace trireme::testing
