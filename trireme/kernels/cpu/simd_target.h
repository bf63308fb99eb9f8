// The instruction set that the CPU kernels use on this machine.
#pragma once

#include <string>

namespace trireme {

std::string simd_target();  // by Highway's name: "AVX3", "NEON"

}  // namespace trireme
