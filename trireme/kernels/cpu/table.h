// Each kernel file offers one function that adds its kernels to a table; this is the list of them, one
// to a line so that files can be added without touching anything else.
#pragma once

#include "trireme/kernels/kernel.h"

namespace trireme::cpu {

using AddKernels = void (*)(KernelTable&);

inline constexpr AddKernels kAll[] = {
};

}  // namespace trireme::cpu
