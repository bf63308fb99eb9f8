// Matrix products through cuBLASLt, with f32 accumulation; row-major like everything here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trireme/base/dtype.h"
#include "trireme/kernels/cuda/context.h"

namespace trireme::cuda {

enum class Transpose { kNo, kYes };

// c[i] = op(a[i]) · op(b[i]) + bias + residual[i] for each of `batch` products; op(a) is m × k, op(b) k × n.
struct Gemm {
  struct Operand {
    const void* data = nullptr;
    int64_t stride = 0;  // between rows as they are stored, in elements
    int64_t batch_stride = 0;
    Transpose transpose = Transpose::kNo;
  };
  int64_t m = 0, n = 0, k = 0, batch = 1;
  Operand a, b;
  DType dtype = DType::f32;    // of a and b
  bool exact = false;          // never TF32, even where the device may round products to it
  DType c_dtype = DType::f32;  // of c, bias and residual: as a and b, or f32
  void* c = nullptr;
  int64_t c_stride = 0, c_batch_stride = 0;
  const void* bias = nullptr;      // [n]
  const void* residual = nullptr;  // lies as c does; may be c
  void* pre = nullptr;             // where given, it gets what c would, and c gets gelu of it
  // Where given, c gets what it would times the slope of gelu here. Lies as c does; without bias and
  // residual.
  const void* gelu_at = nullptr;
};

size_t gemm_workspace_bytes(const Gemm& gemm);
void multiply(const Gemm& gemm, CudaContext& context, std::byte* workspace);

}  // namespace trireme::cuda
