// See cublas_lt.h.
#include <dlfcn.h>

#include <string>

#include "trireme/base/error.h"
#include "trireme/kernels/cuda/context.h"
#include "trireme/kernels/cuda/cublas_lt.h"

namespace trireme::cuda {
namespace {

std::string library_name() {
  return "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
}

CublasLt load() {
  void* const library = open_library(library_name());
  if (!library) {
    throw_error(
        "{} is not to be found, neither by the system nor in {}; install NVIDIA's cuBLAS {}, or set "
        "LD_LIBRARY_PATH",
        library_name(), TRIREME_CUDA_LIBRARIES, CUBLAS_VER_MAJOR);
  }
  CublasLt calls;
#define TRIREME_CALL(name)                                                    \
  calls.name = reinterpret_cast<decltype(calls.name)>(dlsym(library, #name)); \
  if (!calls.name) throw_error("{} has no {}", library_name(), #name);
  TRIREME_CUBLAS_LT_CALLS(TRIREME_CALL)
#undef TRIREME_CALL
  return calls;
}

}  // namespace

const CublasLt& cublas_lt() {
  static const CublasLt calls = load();
  return calls;
}

}  // namespace trireme::cuda
