// 16-bit storage for every op: kernels that widen their 16-bit inputs into workspace, run the op's f32
// kernel and round its results back. Ops for which that wastes too much bring their own 16-bit kernels.
#pragma once

#include "trireme/kernels/kernel.h"

namespace trireme::cpu {

// Adds a bf16 and an f16 kernel for each op of the table that has an f32 kernel but none of its own.
// Call it last.
void add_widened(KernelTable& table);

// The two halves of such a kernel, for ops whose dtype is not that of all their tensors (the gradient
// of a loss is f32 beside bf16 logits). `f32_kernel` sees only f32 and integer tensors.
void run_widened(const Kernel& f32_kernel, const KernelContext& context);
size_t widened_workspace(const Kernel& f32_kernel, const KernelShape& shape);

}  // namespace trireme::cpu
