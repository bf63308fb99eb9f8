// See simd_target.h.
#include "trireme/kernels/cpu/simd_target.h"

#include <hwy/highway.h>
#include <hwy/targets.h>

namespace trireme {

std::string simd_target() {
  // Of the targets that this file was built for and this CPU has, the best is the lowest bit.
  const int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  return usable == 0 ? "scalar" : hwy::TargetName(usable & -usable);
}

}  // namespace trireme
