// See nccl_library.h. Beside where the system looks, the library is looked for where its header was found:
// in a Python package that is <folder>/include and <folder>/lib.
#include "trireme/runtime/nccl_library.h"

#include <dlfcn.h>

#include <optional>

#include "trireme/base/error.h"
#include "trireme/kernels/cuda/context.h"
#include "trireme/runtime/nccl.h"

namespace trireme {
namespace {

std::optional<Nccl> load() {
  void* library = cuda::open_library("libnccl.so.2");
  if (!library) library = cuda::open_library(TRIREME_NCCL_LIBRARIES "/libnccl.so.2");
  if (!library) return {};
  Nccl calls;
#define TRIREME_CALL(name)                                                    \
  calls.name = reinterpret_cast<decltype(calls.name)>(dlsym(library, #name)); \
  if (!calls.name) return {};
  TRIREME_NCCL_CALLS(TRIREME_CALL)
#undef TRIREME_CALL
  return calls;
}

}  // namespace

const Nccl& nccl() {
  static const std::optional<Nccl> calls = load();
  if (!calls)
    throw_error(
        "NCCL is not to be had: libnccl.so.2 of 2.14 or newer was found neither where the system looks for "
        "libraries nor in {}. Install it, or leave --transport nccl out: ranks then exchange through the "
        "host",
        TRIREME_NCCL_LIBRARIES);
  return *calls;
}

void require_nccl() {
  nccl();
}

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return ncclFloat64;
    case DType::f32:
      return ncclFloat32;
    case DType::f16:
      return ncclFloat16;
    case DType::bf16:
      return ncclBfloat16;
    case DType::i64:
      return ncclInt64;
    case DType::i32:
      return ncclInt32;
    case DType::u8:
      return ncclUint8;
  }
  throw_error("NCCL has no type for {}", name(dtype));
}

ncclRedOp_t nccl_reduction(Communicator::Reduction reduction) {
  return reduction == Communicator::Reduction::kMax ? ncclMax : ncclSum;
}

}  // namespace trireme
