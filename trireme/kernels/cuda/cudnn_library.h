// The calls of cuDNN's backend, which is loaded when it is first needed. It is used where it is: what it does
// has a kernel of our own as well.
#pragma once

#include <cudnn.h>

namespace trireme::cuda {

#define TRIREME_CUDNN_CALLS(X)     \
  X(cudnnBackendCreateDescriptor)  \
  X(cudnnBackendDestroyDescriptor) \
  X(cudnnBackendExecute)           \
  X(cudnnBackendFinalize)          \
  X(cudnnBackendGetAttribute)      \
  X(cudnnBackendSetAttribute)      \
  X(cudnnCreate)                   \
  X(cudnnDestroy)                  \
  X(cudnnGetErrorString)           \
  X(cudnnGetVersion)               \
  X(cudnnSetStream)

struct Cudnn {
#define TRIREME_CALL(name) decltype(&::name) name;
  TRIREME_CUDNN_CALLS(TRIREME_CALL)
#undef TRIREME_CALL
};

// Null where the library is not installed, or is older than 9.
const Cudnn* cudnn();

}  // namespace trireme::cuda
