// See cudnn_library.h.
#include <dlfcn.h>

#include <optional>

#include "trireme/kernels/cuda/context.h"
#include "trireme/kernels/cuda/cudnn_library.h"

namespace trireme::cuda {
namespace {

std::optional<Cudnn> load() {
  void* const library = open_library("libcudnn.so." + std::to_string(CUDNN_MAJOR));
  if (!library) return {};
  Cudnn calls;
#define TRIREME_CALL(name)                                                    \
  calls.name = reinterpret_cast<decltype(calls.name)>(dlsym(library, #name)); \
  if (!calls.name) return {};
  TRIREME_CUDNN_CALLS(TRIREME_CALL)
#undef TRIREME_CALL
  return calls;
}

}  // namespace

const Cudnn* cudnn() {
  static const std::optional<Cudnn> calls = load();
  return calls ? &*calls : nullptr;
}

}  // namespace trireme::cuda
