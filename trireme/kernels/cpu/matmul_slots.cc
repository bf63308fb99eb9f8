// matmul_slots and its gradient by weights: batched products of the GEMM of this folder, in which only the
// slots that are used take part. Those are as many as tokens chose, so a layer costs what they cost and not
// what all slots would.
#include <algorithm>

#include "trireme/kernels/cpu/bf16_product.h"
#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/gemm.h"
#include "trireme/kernels/cpu/grain.h"

namespace trireme::cpu {
namespace slot_matmul {
namespace {

using enum Transpose;

// y[e (g c) n] = x[e (g c) m] · w[e m n], without pointers.
Gemm product_shape(const Shape& x, const Shape& y, const Attrs& attrs) {
  Gemm g;
  g.m = x[1] * x[2];
  g.n = y[3];
  g.k = x[3];
  g.batch = x[0];
  g.a = {.stride = g.k, .batch_stride = g.m * g.k};
  const bool transposed = attrs.integer("transpose_b", 0) != 0;
  g.b = {.stride = transposed ? g.k : g.n, .transpose = transposed ? kYes : kNo, .batch_stride = g.k * g.n};
  g.c_stride = g.n;
  g.c_batch_stride = g.m * g.n;
  g.use = {.along = GemmUse::Along::kRows, .groups = x[1], .slots = x[2]};
  return g;
}

// dw[e m n] = xᵀ[e m (g c)] · dy[e (g c) n].
Gemm weight_shape(const Shape& x, const Shape& dy) {
  Gemm g;
  g.m = x[3];
  g.n = dy[3];
  g.k = x[1] * x[2];
  g.batch = x[0];
  g.a = {.stride = g.m, .transpose = kYes, .batch_stride = g.m * g.k};
  g.b = {.stride = g.n, .batch_stride = g.k * g.n};
  g.c_stride = g.n;
  g.c_batch_stride = g.m * g.n;
  g.use = {.along = GemmUse::Along::kSum, .groups = x[1], .slots = x[2]};
  return g;
}

Gemm product_shape(const KernelShape& s) {
  return product_shape(s.inputs[0].shape, s.outputs[0].shape, s.attrs);
}
Gemm product_shape(const KernelContext& c) {
  return product_shape(c.inputs[0].shape, c.outputs[0].shape, c.attrs);
}
Gemm weight_shape(const KernelShape& s) {
  return weight_shape(s.inputs[0].shape, s.inputs[1].shape);
}
Gemm weight_shape(const KernelContext& c) {
  return weight_shape(c.inputs[0].shape, c.inputs[1].shape);
}

template <Gemm (*kShape)(const KernelContext&)>
void run_f32(const KernelContext& context) {
  Gemm g = kShape(context);
  g.a.data = context.in<float>(0);
  g.b.data = context.in<float>(1);
  g.c = context.out<float>(0);
  g.use.used = context.in<int32_t>(2);
  gemm(g, pool_of(context), context.workspace);
}

template <Gemm (*kShape)(const KernelShape&)>
size_t f32_workspace(const KernelShape& shape) {
  return gemm_workspace_bytes(kShape(shape), shape.threads);
}

// Zeros in the slots of y[e g c n] that nothing is made of.
template <typename T>
void clear_unused(const KernelContext& context) {
  const Shape& y = context.outputs[0].shape;
  const int64_t slots = y[2], width = y[3];
  const int32_t* const used = context.in<int32_t>(2);
  pool_of(context).parallel_for(y[0] * y[1], row_grain(slots * width), [&](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) {
      const int64_t from = std::clamp<int64_t>(used[group], 0, slots);
      std::fill_n(context.out<T>(0) + (group * slots + from) * width, (slots - from) * width, T(0.0f));
    }
  });
}

void product(const KernelContext& context) {
  run_f32<product_shape>(context);
  clear_unused<float>(context);
}

// Of the same product.
Bf16Product bf16_shape(const Gemm& g) {
  const auto operand = [](const GemmOperand& from) {
    return Bf16Operand{nullptr, from.stride, from.transpose, from.batch_stride};
  };
  return {.m = g.m, .n = g.n, .k = g.k, .batch = g.batch, .a = operand(g.a), .b = operand(g.b), .use = g.use};
}

template <Gemm (*kShape)(const KernelContext&)>
void run_bf16(const KernelContext& context) {
  Bf16Product p = bf16_shape(kShape(context));
  p.a.data = context.in<Bf16>(0);
  p.b.data = context.in<Bf16>(1);
  p.c = context.out<Bf16>(0);
  p.use.used = context.in<int32_t>(2);
  multiply_bf16(p, *bf16_instructions(), pool_of(context), context.workspace);
}

template <Gemm (*kShape)(const KernelShape&)>
size_t bf16_workspace(const KernelShape& shape) {
  return bf16_product_workspace(bf16_shape(kShape(shape)));
}

}  // namespace
}  // namespace slot_matmul

void add_matmul_slots(KernelTable& table) {
  using namespace slot_matmul;
  table.add("matmul_slots", DType::f32, {product, f32_workspace<product_shape>});
  table.add("matmul_slots_grad_weight", DType::f32, {run_f32<weight_shape>, f32_workspace<weight_shape>});
  if (!bf16_instructions()) return;
  table.add("matmul_slots", DType::bf16, {run_bf16<product_shape>, bf16_workspace<product_shape>});
  table.add("matmul_slots_grad_weight", DType::bf16, {run_bf16<weight_shape>, bf16_workspace<weight_shape>});
}

}  // namespace trireme::cpu
