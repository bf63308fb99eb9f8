// What element-wise ops make of one element, by the names of the ops. nvcc compiles this into the kernels of
// single ops, and NVRTC, which gets it as text, into those of maps (map.cu): it includes nothing.
#pragma once

namespace trireme::cuda::formula {

#define TRIREME_FORMULA __device__ __forceinline__ float

// clang-format off
TRIREME_FORMULA neg(float x) { return -x; }
TRIREME_FORMULA exp(float x) { return expf(x); }
TRIREME_FORMULA log(float x) { return logf(x); }
TRIREME_FORMULA sqrt(float x) { return sqrtf(x); }
TRIREME_FORMULA rsqrt(float x) { return 1 / sqrtf(x); }
TRIREME_FORMULA tanh(float x) { return tanhf(x); }
TRIREME_FORMULA erf(float x) { return erff(x); }
TRIREME_FORMULA sigmoid(float x) { return 1 / (1 + expf(-x)); }
TRIREME_FORMULA relu(float x) { return x < 0 ? 0 : x; }
TRIREME_FORMULA silu(float x) { return x * sigmoid(x); }
TRIREME_FORMULA affine(float x, float scale, float shift) { return fmaf(x, scale, shift); }

TRIREME_FORMULA add(float a, float b) { return a + b; }
TRIREME_FORMULA sub(float a, float b) { return a - b; }
TRIREME_FORMULA mul(float a, float b) { return a * b; }
TRIREME_FORMULA div(float a, float b) { return a / b; }

TRIREME_FORMULA tanh_grad(float dy, float y) { return dy * (1 - y * y); }
TRIREME_FORMULA sigmoid_grad(float dy, float y) { return dy * y * (1 - y); }
TRIREME_FORMULA relu_grad(float dy, float y) { return y > 0 ? dy : 0; }
// clang-format on
TRIREME_FORMULA silu_grad(float dy, float x) {
  const float s = sigmoid(x);
  return dy * (x * s * (1 - s) + s);
}

// The tanh form of GELU, as x · sigmoid of a polynomial, and its slope.
constexpr float kGeluA = 1.59576912f, kGeluB = 0.0713548163f;
TRIREME_FORMULA gelu(float x) {
  return x * sigmoid(x * (kGeluA + kGeluB * x * x));
}
TRIREME_FORMULA gelu_grad(float dy, float x) {
  const float bx2 = kGeluB * x * x, s = sigmoid(x * (kGeluA + bx2));
  // s·(1 − s) is zero long before x·slope overflows to infinity, and their product must be too.
  const float bounded = fminf(fmaxf(x * (kGeluA + 3 * bx2), -1e30f), 1e30f);
  return dy * (s * (1 - s) * bounded + s);
}

#undef TRIREME_FORMULA

}  // namespace trireme::cuda::formula
