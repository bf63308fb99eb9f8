// The list of all CUDA kernels, and the context that they get. Each file of this folder that holds kernels
// offers one function that adds them to a table; to add a file, put its function's name into the list.
#include <dlfcn.h>

#include <algorithm>
#include <iterator>

#include "trireme/kernels/cuda/context.h"
#include "trireme/kernels/cuda/map_kernels.h"
#include "trireme/kernels/cuda/products.h"
#include "trireme/kernels/cuda/table.h"
#include "trireme/kernels/device_fault.h"

namespace trireme {
namespace cuda {

// clang-format off
#define TRIREME_CUDA_KERNEL_FILES(X) \
  X(add_attention) \
  X(add_batch_norm) \
  X(add_batch_norm_nhwc) \
  X(add_binary) \
  X(add_bits) \
  X(add_cast) \
  X(add_collective) \
  X(add_conv2d) \
  X(add_conv2d_nhwc) \
  X(add_cross_entropy) \
  X(add_dispatch) \
  X(add_dropout) \
  X(add_embedding) \
  X(add_layer_norm) \
  X(add_map) \
  X(add_matmul) \
  X(add_optimizer) \
  X(add_orthogonalise) \
  X(add_pool2d) \
  X(add_pool2d_nhwc) \
  X(add_quantise) \
  X(add_reduce) \
  X(add_residual) \
  X(add_rms_norm) \
  X(add_rope) \
  X(add_route) \
  X(add_shape) \
  X(add_softmax) \
  X(add_sparse) \
  X(add_total_squares) \
  X(add_unary)
// clang-format on

#define TRIREME_DECLARE(name) void name(KernelTable&);
TRIREME_CUDA_KERNEL_FILES(TRIREME_DECLARE)
#undef TRIREME_DECLARE

CudaContext::CudaContext(cudaStream_t its_stream, ProductChoices& choices, F32Products f32)
    : stream(its_stream),
      products(std::make_unique<Products>(choices, f32)),
      cudnn_plans(make_cudnn_plans(its_stream)),
      maps(std::make_unique<MapKernels>()) {}
CudaContext::~CudaContext() = default;

namespace {

// Those after which every call fails.
bool is_fault(cudaError_t status) {
  static constexpr cudaError_t kFaults[] = {cudaErrorIllegalAddress,
                                            cudaErrorMisalignedAddress,
                                            cudaErrorIllegalInstruction,
                                            cudaErrorInvalidAddressSpace,
                                            cudaErrorInvalidPc,
                                            cudaErrorHardwareStackError,
                                            cudaErrorAssert,
                                            cudaErrorLaunchFailure,
                                            cudaErrorLaunchTimeout,
                                            cudaErrorECCUncorrectable};
  return std::ranges::find(kFaults, status) != std::end(kFaults);
}

}  // namespace

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  const std::string words =
      fmt::format("{}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status));
  if (is_fault(status)) throw DeviceFault(words);
  throw DeviceError(words);
}

void* open_library(const std::string& name) {
  for (const std::string& path : {name, std::string(TRIREME_CUDA_LIBRARIES "/") + name}) {
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

}  // namespace cuda

const KernelTable& cuda_kernels() {
  static const KernelTable table = [] {
    KernelTable all;
#define TRIREME_ADD(name) cuda::name(all);
    TRIREME_CUDA_KERNEL_FILES(TRIREME_ADD)
#undef TRIREME_ADD
    return all;
  }();
  return table;
}

}  // namespace trireme
