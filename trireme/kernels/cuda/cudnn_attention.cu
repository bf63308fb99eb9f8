// See cudnn_attention.h.
#include <cmath>

#include "trireme/kernels/cuda/cudnn_attention.h"
#include "trireme/kernels/cuda/cudnn_attention_graph.h"
#include "trireme/kernels/cuda/cudnn_library.h"
#include "trireme/kernels/cuda/cudnn_plans.h"

namespace trireme::cuda {
namespace {

enum Kind : int64_t { kForward = 1, kBackward = 2 };  // of a key; convolutions have others

AttentionGraph graph_of(const Heads& h, DType dtype, HeadRows rows) {
  return {h.batch, h.groups * h.repeats, h.groups, h.queries, h.keys, h.width, h.causal, dtype, rows};
}

CudnnPlans::Key key_of(Kind kind, const AttentionGraph& a) {
  return {kind,   a.batch, a.heads,  a.kv_heads,    a.queries,
          a.keys, a.width, a.causal, a.query_row(), static_cast<int64_t>(a.dtype)};
}

size_t aligned_bytes(size_t bytes) {
  return (bytes + kCudnnAlignment - 1) / kCudnnAlignment * kCudnnAlignment;
}
// One float for each query.
size_t rows_bytes(const Heads& h) {
  return aligned_bytes(size_t{sizeof(float)} * h.batch * h.heads() * h.queries);
}
// dk, or dv, of every head by itself, where heads share keys.
size_t key_heads_bytes(const Heads& h) {
  return h.repeats == 1 ? 0 : aligned_bytes(size_t{2} * h.batch * h.heads() * h.keys * h.width);
}

constexpr size_t kForwardBytes = 4096;
// dS of every head, in whole tiles.
size_t slopes_bytes(const Heads& h) {
  const auto tiles = [](int64_t rows) { return static_cast<size_t>(ceil_div(rows, 128) * 128); };
  return size_t{2} * h.batch * h.heads() * tiles(h.queries) * tiles(h.keys) + kForwardBytes;
}

}  // namespace

bool cudnn_takes(const Heads& h, DType dtype) {
  return cudnn() && dtype != DType::f32 && h.width % 8 == 0 && h.width <= 128 &&
         (!h.causal || h.queries == h.keys) && h.positions == nullptr && h.batch * h.queries * h.keys > 0;
}

size_t cudnn_attention_workspace(const Heads& h, DType dtype) {
  return cudnn_takes(h, dtype) ? kForwardBytes + kCudnnAlignment : 0;
}

size_t cudnn_attention_grad_workspace(const Heads& h, DType dtype) {
  return cudnn_takes(h, dtype) ? rows_bytes(h) + 2 * key_heads_bytes(h) + slopes_bytes(h) + kCudnnAlignment
                               : 0;
}

bool cudnn_attention(const Heads& h, DType dtype, HeadRows rows, const AttentionArrays& x,
                     CudaContext& context, std::byte* workspace) {
  using G = AttentionGraph;
  if (!cudnn_takes(h, dtype)) return false;
  const G graph = graph_of(h, dtype, rows);
  CudnnPlans& plans = *context.cudnn_plans;
  const CudnnPlan* plan = plans.find(key_of(kForward, graph), kForwardBytes, [&] { return graph.forward(); });
  if (!plan) return false;
  const float masked = -INFINITY;
  const CudnnPlan::Binding bindings[] = {{G::kQ, x.q},         {G::kK, x.k},       {G::kV, x.v},
                                         {G::kO, x.o},         {G::kStats, x.lse}, {G::kScale, &h.scale},
                                         {G::kMasked, &masked}};
  plans.run(*plan, {bindings, std::size(bindings) - (h.causal ? 0 : 1)}, cudnn_aligned(workspace));
  return true;
}

bool cudnn_attention_grad(const Heads& h, DType dtype, HeadRows rows, const AttentionGradArrays& x,
                          CudaContext& context, std::byte* workspace) {
  using G = AttentionGraph;
  if (!cudnn_takes(h, dtype)) return false;
  const G graph = graph_of(h, dtype, rows);
  CudnnPlans& plans = *context.cudnn_plans;
  const CudnnPlan* plan =
      plans.find(key_of(kBackward, graph), slopes_bytes(h), [&] { return graph.backward(); });
  if (!plan) return false;
  const float masked = -INFINITY, one = 1;
  std::byte *const delta = cudnn_aligned(workspace), *const dk_heads = delta + rows_bytes(h),
                   *const dv_heads = dk_heads + key_heads_bytes(h);
  std::vector<CudnnPlan::Binding> bindings = {{G::kDo, x.gradient}, {G::kQ, x.q},          {G::kK, x.k},
                                              {G::kV, x.v},         {G::kO, x.o},          {G::kStats, x.lse},
                                              {G::kDq, x.dq},       {G::kDk, x.dk},        {G::kDv, x.dv},
                                              {G::kDelta, delta},   {G::kScale, &h.scale}, {G::kOne, &one}};
  if (h.causal) bindings.push_back({G::kMasked, &masked});
  if (graph.shares_keys())
    bindings.insert(bindings.end(), {{G::kDkHeads, dk_heads}, {G::kDvHeads, dv_heads}});
  plans.run(*plan, bindings, dv_heads + key_heads_bytes(h));
  return true;
}

}  // namespace trireme::cuda
