// cuDNN finds its fused kernels by these very operations in this very order of dependencies; what looks as if
// it could be left out (a product by one, a copy of k with its own strides) can not.
#include "trireme/kernels/cuda/cudnn_attention_graph.h"

namespace trireme::cuda {
namespace {

using Tensor = CudnnGraph::Tensor;
using Four = CudnnGraph::Four;

Four swapped(Four values) {
  std::swap(values[2], values[3]);
  return values;
}

}  // namespace

// The shapes of both graphs; dims are batch, head, row, column.
struct AttentionGraph::Shapes {
  Four q, q_strides, o_strides, k, k_strides, k_heads, k_heads_strides, scores, scores_strides, one,
      one_strides;
  cudnnDataType_t type, f32 = CUDNN_DATA_FLOAT;

  explicit Shapes(const AttentionGraph& a)
      : q{a.batch, a.heads, a.queries, a.width},
        q_strides{a.queries * a.query_row(), a.width, a.query_row(), 1},
        o_strides{a.queries * a.heads * a.width, a.width, a.heads * a.width, 1},
        k{a.batch, a.kv_heads, a.keys, a.width},
        k_strides{a.keys * a.key_row(), a.width, a.key_row(), 1},
        k_heads{a.batch, a.heads, a.keys, a.width},
        k_heads_strides{a.heads * a.keys * a.width, a.keys * a.width, a.width, 1},
        scores{a.batch, a.heads, a.queries, a.keys},
        scores_strides{a.heads * a.queries * a.keys, a.queries * a.keys, a.keys, 1},
        one{a.batch, a.heads, a.queries, 1},
        one_strides{a.heads * a.queries, a.queries, 1, 1},
        type(cudnn_type(a.dtype)) {}

  Tensor score(CudnnGraph& g) const { return g.inner(f32, scores, scores_strides); }
  Tensor row(CudnnGraph& g) const { return g.inner(f32, one, one_strides); }
  Tensor score_transposed(CudnnGraph& g) const {
    return g.inner(type, swapped(scores), swapped(scores_strides));
  }

  // Scores of keys after the query give way to −∞.
  Tensor masked(CudnnGraph& g, const Tensor& x) const {
    const Tensor row = g.inner(CUDNN_DATA_INT32, scores, scores_strides),
                 column = g.inner(CUDNN_DATA_INT32, scores, scores_strides),
                 seen = g.inner(CUDNN_DATA_BOOLEAN, scores, scores_strides), y = score(g);
    g.index(2, x, row);
    g.index(3, x, column);
    g.binary(CUDNN_POINTWISE_CMP_GE, row, column, seen);
    g.select(seen, x, g.scalar(kMasked), y);
    return y;
  }
};

CudnnGraph AttentionGraph::forward() const {
  CudnnGraph g;
  const Shapes r(*this);
  const Tensor q = g.real(kQ, r.type, r.q, r.q_strides),
               k = g.real(kK, r.type, swapped(r.k), swapped(r.k_strides)),
               v = g.real(kV, r.type, r.k, r.k_strides), o = g.real(kO, r.type, r.q, r.o_strides),
               stats = g.real(kStats, r.f32, r.one, r.one_strides);
  const Tensor product = r.score(g), scaled = r.score(g);
  g.matmul(q, k, product);
  g.binary(CUDNN_POINTWISE_MUL, product, g.scalar(kScale), scaled);
  const Tensor scores = causal ? r.masked(g, scaled) : scaled;
  const Tensor largest = r.row(g), off = r.score(g), exponentials = r.score(g), sum = r.row(g),
               log = r.row(g), weights = g.inner(r.type, r.scores, r.scores_strides);
  g.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, largest);
  g.binary(CUDNN_POINTWISE_SUB, scores, largest, off);
  g.unary(CUDNN_POINTWISE_EXP, off, exponentials);
  g.reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials, sum);
  g.unary(CUDNN_POINTWISE_LOG, sum, log);
  g.binary(CUDNN_POINTWISE_ADD, largest, log, stats);
  g.binary(CUDNN_POINTWISE_DIV, exponentials, sum, weights);
  g.matmul(weights, v, o);
  return g;
}

// The form without an accumulator of dq in memory: that one adds atomically, and two runs of it differ.
CudnnGraph AttentionGraph::backward() const {
  CudnnGraph g;
  const Shapes r(*this);
  const Tensor q = g.real(kQ, r.type, r.q, r.q_strides),
               k = g.real(kK, r.type, swapped(r.k), swapped(r.k_strides)),
               v = g.real(kV, r.type, swapped(r.k), swapped(r.k_strides)),
               o = g.real(kO, r.type, r.q, r.o_strides), gradient = g.real(kDo, r.type, r.q, r.o_strides),
               stats = g.real(kStats, r.f32, r.one, r.one_strides),
               delta = g.real(kDelta, r.f32, r.one, r.one_strides),
               dq = g.real(kDq, r.type, r.q, r.q_strides), dk = g.real(kDk, r.type, r.k, r.k_strides),
               dv = g.real(kDv, r.type, r.k, r.k_strides), scale = g.scalar(kScale);
  // What heads that share keys have each for itself is added up behind the product, by the graph too.
  const auto multiply_heads = [&](const Tensor& a, const Tensor& b, Id heads_id, const Tensor& y) {
    if (!shares_keys()) return g.matmul(a, b, y);
    const Tensor of_heads = g.real(heads_id, r.type, r.k_heads, r.k_heads_strides);
    g.matmul(a, b, of_heads);
    g.reduce(CUDNN_REDUCE_TENSOR_ADD, of_heads, y);
  };

  const Tensor products = g.inner(r.f32, r.q, r.o_strides), sum = r.row(g);
  g.binary(CUDNN_POINTWISE_MUL, gradient, o, products);
  g.reduce(CUDNN_REDUCE_TENSOR_ADD, products, sum);
  g.binary(CUDNN_POINTWISE_MUL, sum, g.scalar(kOne), delta);

  const Tensor product = r.score(g), scaled = r.score(g), off = r.score(g), weights = r.score(g),
               weights_transposed = r.score_transposed(g);
  g.matmul(q, k, product);
  g.binary(CUDNN_POINTWISE_MUL, product, scale, scaled);
  g.binary(CUDNN_POINTWISE_SUB, scaled, stats, off);
  g.unary(CUDNN_POINTWISE_EXP, causal ? r.masked(g, off) : off, weights);
  g.reshape(weights, weights_transposed);
  multiply_heads(weights_transposed, gradient, kDvHeads, dv);

  const Tensor slopes = r.score(g), centred = r.score(g), weighted = r.score(g), ds = r.score(g),
               ds_transposed = r.score_transposed(g), k_rows = g.inner(r.f32, r.k, r.k_strides);
  g.matmul(gradient, v, slopes);
  g.binary(CUDNN_POINTWISE_SUB, slopes, delta, centred);
  g.binary(CUDNN_POINTWISE_MUL, centred, weights, weighted);
  g.binary(CUDNN_POINTWISE_MUL, weighted, scale, ds);
  g.reshape(ds, ds_transposed);
  multiply_heads(ds_transposed, q, kDkHeads, dk);
  g.reshape(k, k_rows);
  g.matmul(ds, k_rows, dq);
  return g;
}

}  // namespace trireme::cuda
