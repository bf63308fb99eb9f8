// The calls of cuBLASLt, which is loaded when it is first needed.
#pragma once

#include <cublasLt.h>

namespace trireme::cuda {

#define TRIREME_CUBLAS_LT_CALLS(X)        \
  X(cublasLtCreate)                       \
  X(cublasLtDestroy)                      \
  X(cublasLtMatmul)                       \
  X(cublasLtMatmulAlgoCheck)              \
  X(cublasLtMatmulAlgoGetHeuristic)       \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)          \
  X(cublasLtMatrixLayoutSetAttribute)     \
  X(cublasLtGetStatusName)                \
  X(cublasLtGetVersion)

struct CublasLt {
#define TRIREME_CALL(name) decltype(&::name) name;
  TRIREME_CUBLAS_LT_CALLS(TRIREME_CALL)
#undef TRIREME_CALL
};

// Throws an Error that says where it was looked for.
const CublasLt& cublas_lt();

}  // namespace trireme::cuda
