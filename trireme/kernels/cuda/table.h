// The table of CUDA kernels, and the ops that have none.
#pragma once

#include <array>
#include <string_view>

#include "trireme/kernels/kernel.h"

namespace trireme {

const KernelTable& cuda_kernels();

// Written down, never implied by absence. An op stands in the table or here.
struct NoCudaKernel {
  std::string_view op, reason;
};
inline constexpr std::array<NoCudaKernel, 0> kNoCudaKernels = {};

}  // namespace trireme
