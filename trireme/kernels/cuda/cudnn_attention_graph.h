// The graphs of operations by which cuDNN knows attention and its gradient.
#pragma once

#include "trireme/kernels/cuda/cudnn_graph.h"
#include "trireme/kernels/cuda/head_rows.h"

namespace trireme::cuda {

// q[b t h d], k and v[b s h d], o as q, lse[b h t].
struct AttentionGraph {
  int64_t batch, heads, queries, keys, width;
  bool causal;  // with as many queries as keys
  DType dtype;
  HeadRows rows = HeadRows::kApart;

  int64_t row() const { return heads * width * (rows == HeadRows::kPacked ? 3 : 1); }  // to the next one

  // Under which addresses are given to a plan.
  enum Id : int64_t { kQ = 1, kK, kV, kO, kStats, kScale, kMasked, kOne, kDo, kDq, kDk, kDv, kDelta };

  CudnnGraph forward() const;
  CudnnGraph backward() const;

 private:
  struct Shapes;
};

}  // namespace trireme::cuda
