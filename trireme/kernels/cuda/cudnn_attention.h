// Attention by cuDNN: 16-bit heads of up to 128 numbers, a multiple of 8.
#pragma once

#include "trireme/kernels/cuda/head_rows.h"
#include "trireme/kernels/cuda/heads.cuh"

namespace trireme::cuda {

struct AttentionArrays {
  const void *q, *k, *v;
  void *o, *lse;
};
struct AttentionGradArrays {
  const void *gradient, *q, *k, *v, *o, *lse;
  void *dq, *dk, *dv;
};

// Whether it takes such heads, as far as that is known before it has looked for a plan.
bool cudnn_takes(const Heads& h, DType dtype);

// Each says whether it did it; where not, nothing was done. q, k, v and their gradients lie as `rows` says.
bool cudnn_attention(const Heads& h, DType dtype, HeadRows rows, const AttentionArrays& x,
                     CudaContext& context, std::byte* workspace);
bool cudnn_attention_grad(const Heads& h, DType dtype, HeadRows rows, const AttentionGradArrays& x,
                          CudaContext& context, std::byte* workspace);

size_t cudnn_attention_workspace(const Heads& h, DType dtype);
size_t cudnn_attention_grad_workspace(const Heads& h, DType dtype);

}  // namespace trireme::cuda
