// What CUDA kernels work with: a stream, the products of cuBLASLt, and what launches need to know.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <string>

#include "trireme/kernels/kernel.h"
#include "trireme/kernels/product_choices.h"

namespace trireme::cuda {

class Products;    // products.h
class CudnnPlans;  // cudnn_plans.h
class MapKernels;  // map_kernels.h

// Null where this was built without cuDNN's headers.
std::shared_ptr<CudnnPlans> make_cudnn_plans(cudaStream_t stream);

class CudaContext final : public DeviceContext {
 public:
  CudaContext(cudaStream_t stream, ProductChoices& choices, F32Products f32);  // choices outlive it
  ~CudaContext() override;

  const cudaStream_t stream;
  const std::unique_ptr<Products> products;
  const std::shared_ptr<CudnnPlans> cudnn_plans;
  const std::unique_ptr<MapKernels> maps;
};

inline CudaContext& context_of(const KernelContext& context) {
  return static_cast<CudaContext&>(context.device);
}
inline cudaStream_t stream_of(const KernelContext& context) {
  return context_of(context).stream;
}

// Throws a DeviceError that says what was tried and CUDA's own words.
void check(cudaError_t status, const char* what);

// NVIDIA's libraries are loaded when they are first needed: they are hundreds of megabytes, and most programs
// and tests of this project never use them.
// Null where neither the system nor the toolkit that this was built with has the library.
void* open_library(const std::string& name);

}  // namespace trireme::cuda
