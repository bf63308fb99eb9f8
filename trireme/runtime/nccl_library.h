// The calls of NCCL, which is loaded when it is first needed, and its words for ours.
#pragma once

#include <nccl.h>

#include "trireme/base/dtype.h"
#include "trireme/kernels/communicator.h"

namespace trireme {

#define TRIREME_NCCL_CALLS(X) \
  X(ncclAllGather)            \
  X(ncclAllReduce)            \
  X(ncclCommAbort)            \
  X(ncclCommDestroy)          \
  X(ncclCommFinalize)         \
  X(ncclCommGetAsyncError)    \
  X(ncclCommInitRankConfig)   \
  X(ncclGetErrorString)       \
  X(ncclGetLastError)         \
  X(ncclGetUniqueId)          \
  X(ncclGetVersion)           \
  X(ncclGroupEnd)             \
  X(ncclGroupStart)           \
  X(ncclRecv)                 \
  X(ncclReduce)               \
  X(ncclReduceScatter)        \
  X(ncclSend)

struct Nccl {
#define TRIREME_CALL(name) decltype(&::name) name;
  TRIREME_NCCL_CALLS(TRIREME_CALL)
#undef TRIREME_CALL
};

// Throws an Error where the library is not installed.
const Nccl& nccl();

ncclDataType_t nccl_type(DType dtype);
ncclRedOp_t nccl_reduction(Communicator::Reduction reduction);

}  // namespace trireme
