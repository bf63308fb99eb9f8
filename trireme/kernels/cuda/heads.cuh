// The heads of an attention op, and which keys a query sees.
#pragma once

#include "trireme/ir/pieces.h"
#include "trireme/kernels/cuda/device.cuh"

namespace trireme::cuda {

// q[b t g r d], k[b s g d]; a head is (b, g, r).
struct Heads {
  int batch, queries, keys, groups, repeats, width;
  bool causal;
  int first;  // with `causal`, the first query sees the keys 0 … first
  float scale;
  // Of attention_at, for each row of the batch and known on the device alone: `first`, and the line of k and
  // v.
  const int32_t *positions = nullptr, *lines = nullptr;

  Heads(const Shape& q, const Shape& k, const Attrs& attrs)
      : batch(static_cast<int>(q[0])),
        queries(static_cast<int>(q[1])),
        keys(static_cast<int>(k[1])),
        groups(static_cast<int>(q[2])),
        repeats(static_cast<int>(q[3])),
        width(static_cast<int>(q[4])),
        causal(attrs.integer("causal", 0) != 0),
        first(static_cast<int>(attrs.integer("offset", keys - queries))),
        scale(static_cast<float>(attrs.real("scale"))) {
    refuse_pieces(attrs);
  }

  int heads() const { return groups * repeats; }
  __device__ void take_place(int b) {
    if (positions) first = positions[b];
  }
  __device__ int64_t query(int b, int g, int r, int t) const {  // times width: where it begins
    return ((int64_t{b} * queries + t) * groups + g) * repeats + r;
  }
  __device__ int64_t statistic(int b, int g, int r, int t) const {  // where the lse of a query is
    return ((int64_t{b} * groups + g) * repeats + r) * queries + t;
  }
  __device__ int64_t key(int b, int g, int s) const {
    return (int64_t{lines ? lines[b] : b} * keys + s) * groups + g;
  }
  // How many keys query t sees.
  __device__ int seen(int t) const { return causal ? min(max(t + first + 1, 0), keys) : keys; }
  // The first query that sees key s.
  __device__ int first_seeing(int s) const { return causal ? max(s - first, 0) : 0; }
};

// What the gradient of attention reads and writes.
template <typename T>
struct AttentionGradient {
  const T *gradient, *q, *k, *v;
  const float *lse, *delta;  // delta: Σ do·o of each query, which lies as lse does
  T *dq, *dk, *dv;
};

}  // namespace trireme::cuda
