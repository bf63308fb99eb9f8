// Matrix products of f32; see gemm.h. For now the plain loops, one output row at a time.
#include "trireme/kernels/cpu/gemm.h"

#include <cmath>

namespace trireme::cpu {
namespace {

float element(const GemmOperand& operand, const GemmBlock& at, bool k_major) {
  float value;
  if (operand.fill) {
    operand.fill(operand.context, at, &value, 1);
    return value;
  }
  const float* data = operand.data + at.batch * operand.batch_stride;
  return k_major ? data[at.k * operand.stride + at.first] : data[at.first * operand.stride + at.k];
}

void row(const Gemm& g, int64_t batch, int64_t i) {
  for (int64_t j = 0; j < g.n; ++j) {
    const int64_t at = batch * g.c_batch_stride + i * g.c_stride + j;
    float sum = g.accumulate == Accumulate::kYes ? g.c[at] : 0.0f;
    for (int64_t k = 0; k < g.k; ++k) {
      sum += element(g.a, {batch, k, 1, i, 1}, g.a.transpose == Transpose::kYes) *
             element(g.b, {batch, k, 1, j, 1}, g.b.transpose == Transpose::kNo);
    }
    if (g.epilogue.bias) sum += g.epilogue.bias[j];
    if (g.epilogue.residual) sum += g.epilogue.residual[at];
    if (g.epilogue.pre) {
      g.epilogue.pre[at] = sum;
      sum = 0.5f * sum * (1 + std::tanh(0.7978845608f * (sum + 0.044715f * sum * sum * sum)));
    }
    g.c[at] = sum;
  }
}

}  // namespace

size_t gemm_workspace_bytes(const Gemm&, int) {
  return 0;
}

void gemm(const Gemm& g, ThreadPool& pool, std::byte*) {
  pool.parallel_for(g.batch * g.m, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) row(g, i / g.m, i % g.m);
  });
}

void gemm(const Gemm& g, std::byte*) {
  for (int64_t i = 0; i < g.batch * g.m; ++i) row(g, i / g.m, i % g.m);
}

}  // namespace trireme::cpu
