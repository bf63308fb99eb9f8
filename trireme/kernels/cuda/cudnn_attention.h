// Attention by cuDNN: 16-bit heads of up to 128 numbers, a multiple of 8, each with keys of its own.
#pragma once

#include "trireme/kernels/cuda/heads.cuh"

namespace trireme::cuda {

// Each says whether it did it; where not, nothing was done. Inputs and outputs are those of the op.
bool cudnn_attention(const KernelContext& context, const Heads& h);
bool cudnn_attention_grad(const KernelContext& context, const Heads& h);

size_t cudnn_attention_workspace(const Heads& h, DType dtype);
size_t cudnn_attention_grad_workspace(const Heads& h, DType dtype);

}  // namespace trireme::cuda
