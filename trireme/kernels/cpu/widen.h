// 16-bit storage for every op: kernels that widen their 16-bit inputs into workspace, run the op's f32
// kernel and round its results back. Ops for which that wastes too much bring their own 16-bit kernels.
#pragma once

#include "trireme/kernels/kernel.h"

namespace trireme::cpu {

// Adds a bf16 and an f16 kernel for each op of the table that has an f32 kernel but none of its own.
// Call it last.
void add_widened(KernelTable& table);

}  // namespace trireme::cpu
