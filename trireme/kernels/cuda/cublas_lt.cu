// See cublas_lt.h.
#include <dlfcn.h>

#include <string>

#include "trireme/base/error.h"
#include "trireme/kernels/cuda/cublas_lt.h"

namespace trireme::cuda {
namespace {

std::string library_name() {
  return "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
}

// Where the system looks, and beside the toolkit that this was built with.
void* open_library() {
  const std::string name = library_name();
  for (const std::string& path : {name, std::string(TRIREME_CUDA_LIBRARIES "/") + name}) {
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  throw_error(
      "{} is not to be found, neither by the system nor in {}; install NVIDIA's cuBLAS {}, or set "
      "LD_LIBRARY_PATH",
      name, TRIREME_CUDA_LIBRARIES, CUBLAS_VER_MAJOR);
}

CublasLt load() {
  void* const library = open_library();
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
