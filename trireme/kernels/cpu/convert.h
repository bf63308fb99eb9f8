// Conversion of a stretch of elements between f32 and the other formats, vectorised, on the calling
// thread. To 16 bits it rounds to nearest even, as Bf16 and F16 do.
#pragma once

#include <cstdint>

#include "trireme/base/tensor_view.h"

namespace trireme::cpu {

// to[i] = from[begin + i], for any dtype of `from`.
void widen(const TensorView& from, int64_t begin, int64_t count, float* to);

// to[begin + i] = from[i], for any floating-point dtype of `to`.
void narrow(const float* from, int64_t count, const TensorView& to, int64_t begin);

// values[i] becomes what a tensor of `format` (f32, bf16 or f16) would hold of it.
void round_to(DType format, float* values, int64_t count);

}  // namespace trireme::cpu
