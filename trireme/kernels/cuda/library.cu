// See library.h.
#include <dlfcn.h>

#include "trireme/kernels/cuda/library.h"

namespace trireme::cuda {

void* open_library(const std::string& name) {
  for (const std::string& path : {name, std::string(TRIREME_CUDA_LIBRARIES "/") + name}) {
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

}  // namespace trireme::cuda
