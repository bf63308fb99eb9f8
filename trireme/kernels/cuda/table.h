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
inline constexpr std::string_view kOneRank =
    "one rank computes on a GPU; transports that reach its memory are to come";
inline constexpr std::array kNoCudaKernels = {
    NoCudaKernel{"all_gather", kOneRank},           NoCudaKernel{"all_gather_start", kOneRank},
    NoCudaKernel{"all_gather_wait", kOneRank},      NoCudaKernel{"all_reduce", kOneRank},
    NoCudaKernel{"all_reduce_start", kOneRank},     NoCudaKernel{"all_reduce_wait", kOneRank},
    NoCudaKernel{"all_to_all", kOneRank},           NoCudaKernel{"reduce_scatter", kOneRank},
    NoCudaKernel{"reduce_scatter_start", kOneRank}, NoCudaKernel{"reduce_scatter_wait", kOneRank},
};

}  // namespace trireme
