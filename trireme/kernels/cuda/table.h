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
inline constexpr std::string_view kNoExchange = "methods of exchange that compress run on CPUs only so far";
inline constexpr auto kNoCudaKernels = std::to_array<NoCudaKernel>({
    {"clear_at", kNoExchange},
    {"dequantise", kNoExchange},
    {"drawn", kNoExchange},
    {"one_bit_pack", kNoExchange},
    {"one_bit_unpack", kNoExchange},
    {"orthogonalise", kNoExchange},
    {"quantise", kNoExchange},
    {"rice_pack", kNoExchange},
    {"rice_unpack", kNoExchange},
    {"scatter_add", kNoExchange},
    {"shift", "pruned_ring, which passes messages on, runs on CPUs only so far"},
    {"sign_pack", kNoExchange},
    {"sign_unpack", kNoExchange},
    {"sign_vote", kNoExchange},
    {"svd_sample", kNoExchange},
    {"ternary_pack", kNoExchange},
    {"ternary_unpack", kNoExchange},
    {"threshold_pack", kNoExchange},
    {"top_k", kNoExchange},
});

}  // namespace trireme
