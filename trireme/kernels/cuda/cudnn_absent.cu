// In the place of the cudnn_*.cu where this is built without cuDNN's headers: our own kernels do it all.
#include "trireme/kernels/cuda/cudnn_attention.h"
#include "trireme/kernels/cuda/cudnn_convolution.h"

namespace trireme::cuda {

std::shared_ptr<CudnnPlans> make_cudnn_plans(cudaStream_t) {
  return nullptr;
}

bool cudnn_takes(const Heads&, DType) {
  return false;
}
bool cudnn_attention(const Heads&, DType, HeadRows, const AttentionArrays&, CudaContext&, std::byte*) {
  return false;
}
bool cudnn_attention_grad(const Heads&, DType, HeadRows, const AttentionGradArrays&, CudaContext&,
                          std::byte*) {
  return false;
}
size_t cudnn_attention_workspace(const Heads&, DType) {
  return 0;
}
size_t cudnn_attention_grad_workspace(const Heads&, DType) {
  return 0;
}

bool cudnn_convolution(Convolved, const Conv&, DType, Channels, const ConvArrays&, CudaContext&, std::byte*) {
  return false;
}
size_t cudnn_convolution_workspace(const Conv&, DType, Channels) {
  return 0;
}

}  // namespace trireme::cuda
