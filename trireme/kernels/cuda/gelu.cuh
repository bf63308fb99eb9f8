// The tanh form of GELU, as x · sigmoid of a polynomial, and its slope.
#pragma once

namespace trireme::cuda {

__device__ __forceinline__ float sigmoid(float x) {
  return 1 / (1 + expf(-x));
}
inline constexpr float kGeluA = 1.59576912f, kGeluB = 0.0713548163f;

__device__ __forceinline__ float gelu(float x) {
  return x * sigmoid(x * (kGeluA + kGeluB * x * x));
}
__device__ __forceinline__ float gelu_grad(float dy, float x) {
  const float bx2 = kGeluB * x * x, s = sigmoid(x * (kGeluA + bx2));
  // s·(1 − s) is zero long before x·slope overflows to infinity, and their product must be too.
  const float bounded = fminf(fmaxf(x * (kGeluA + 3 * bx2), -1e30f), 1e30f);
  return dy * (s * (1 - s) * bounded + s);
}

}  // namespace trireme::cuda
