// Convolution and its gradients by cuDNN. Of f32 factors are rounded to TF32 where the context allows it
// (train.tf32), and nowhere else.
#pragma once

#include "trireme/kernels/cuda/conv.h"
#include "trireme/kernels/cuda/device.cuh"

namespace trireme::cuda {

enum class Convolved { kOutput, kInput, kWeight };  // what is made; the other two are given

enum class Channels { kFirst, kLast };  // of images and weights, in memory

struct ConvArrays {
  const void *x, *weight, *y;
};

// Says whether it did it; where not, nothing was done.
bool cudnn_convolution(Convolved made, const Conv& conv, DType dtype, Channels channels,
                       const ConvArrays& arrays, CudaContext& context, std::byte* workspace);
// 0 where cuDNN is not asked.
size_t cudnn_convolution_workspace(const Conv& conv, DType dtype, Channels channels);

}  // namespace trireme::cuda
