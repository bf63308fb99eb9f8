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
inline constexpr auto kNoCudaKernels = std::to_array<NoCudaKernel>({
    {"attention_merge", "a ring of keys and values passes messages on, which runs on CPUs only so far"},
    {"attention_padded", "seq2seq, whose sources have lengths, runs on CPUs only so far"},
    {"attention_padded_grad", "seq2seq, whose sources have lengths, runs on CPUs only so far"},
    {"attention_part", "as attention_merge"},
    {"attention_part_grad", "as attention_merge"},
    {"ctc_loss", "alignments of labels to frames are added up on CPUs only so far"},
    {"ctc_loss_grad", "alignments of labels to frames are added up on CPUs only so far"},
    {"matmul_slots", "programs for GPUs have one batched product of all slots instead (passes/substitute.h)"},
    {"matmul_slots_grad_weight", "as matmul_slots, whose gradient it is"},
    {"rice_pack", "a code is written one bit after another"},
    {"rice_unpack", "a code is read one bit after another"},
    {"shift", "what passes messages on, a ring and pruned_ring, runs on CPUs only so far"},
    {"shift_start", "as shift, of which it is the first half"},
    {"shift_wait", "as shift, of which it is the second half"},
    {"slots_used", "it is for matmul_slots, which GPUs do without"},
    {"svd_sample", "atomo, which decomposes small matrices, runs on CPUs only so far"},
});

}  // namespace trireme
