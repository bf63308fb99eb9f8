// The graphs of operations by which cuDNN knows attention and its gradient.
#pragma once

#include "trireme/kernels/cuda/cudnn_graph.h"
#include "trireme/kernels/cuda/head_rows.h"

namespace trireme::cuda {

// q[b t h d], k and v[b s g d], o as q, lse[b h t]. Of h heads, h / g in a row share keys and values.
struct AttentionGraph {
  int64_t batch, heads, kv_heads, queries, keys, width;
  bool causal;  // with as many queries as keys
  DType dtype;
  HeadRows rows = HeadRows::kApart;  // kPacked: only where heads share nothing

  bool shares_keys() const { return kv_heads != heads; }
  // From one row to the next.
  int64_t query_row() const { return heads * width * parts(); }
  int64_t key_row() const { return kv_heads * width * parts(); }

  // Under which addresses are given to a plan. kDkHeads and kDvHeads: where keys are shared, the gradients
  // that each head has for itself, [b h s d].
  enum Id : int64_t {
    kQ = 1,
    kK,
    kV,
    kO,
    kStats,
    kScale,
    kMasked,
    kOne,
    kDo,
    kDq,
    kDk,
    kDv,
    kDelta,
    kDkHeads,
    kDvHeads
  };

  CudnnGraph forward() const;
  CudnnGraph backward() const;

 private:
  int64_t parts() const { return rows == HeadRows::kPacked ? 3 : 1; }
  struct Shapes;
};

}  // namespace trireme::cuda
