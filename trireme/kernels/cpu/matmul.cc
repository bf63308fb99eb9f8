// matmul: y = a · b with an optional epilogue, by the GEMM of this folder, or by instructions for bf16 where
// the CPU has them.
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/kernels/cpu/bf16_product.h"
#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/gemm.h"
#include "trireme/kernels/kernel.h"

namespace trireme::cpu {
namespace {

// The product without its pointers, from the shapes of a, b and y.
Gemm matmul_shape(const Shape& a, const Shape& b, const Shape& y, const Attrs& attrs) {
  const bool transpose_a = attrs.integer("transpose_a", 0) != 0;
  const bool transpose_b = attrs.integer("transpose_b", 0) != 0;
  Gemm g;
  g.m = y[y.rank() - 2];
  g.n = y.back();
  g.k = transpose_a ? a[a.rank() - 2] : a.back();
  g.batch = y.elements(0, y.rank() - 2);
  const bool shared_b = b.rank() == 2;
  if (shared_b && !transpose_a) {  // one tall matrix
    g.m *= g.batch;
    g.batch = 1;
  }
  g.a.stride = a.back();
  g.a.transpose = transpose_a ? Transpose::kYes : Transpose::kNo;
  g.a.batch_stride = g.m * g.k;
  g.b.stride = b.back();
  g.b.transpose = transpose_b ? Transpose::kYes : Transpose::kNo;
  g.b.batch_stride = shared_b ? 0 : g.k * g.n;
  g.c_stride = g.n;
  g.c_batch_stride = g.m * g.n;
  return g;
}

// Sets bias, residual and pre of a product of T.
template <typename T, typename Product>
void set_epilogue(const KernelContext& context, Product& epilogue) {
  const std::string_view kind = context.attrs.text("epilogue", "none");
  if (kind == "bias" || kind == "bias_residual" || kind == "bias_gelu") epilogue.bias = context.in<T>(2);
  if (kind == "residual") epilogue.residual = context.in<T>(2);
  if (kind == "bias_residual") epilogue.residual = context.in<T>(3);
  if (kind == "bias_gelu") epilogue.pre = context.out<T>(1);
  if (kind != "none" && !epilogue.bias && !epilogue.residual) {
    throw_error("matmul: epilogue \"{}\" found; none, bias, residual, bias_residual or bias_gelu expected",
                kind);
  }
}

void run_matmul(const KernelContext& context) {
  Gemm g =
      matmul_shape(context.inputs[0].shape, context.inputs[1].shape, context.outputs[0].shape, context.attrs);
  g.a.data = context.in<float>(0);
  g.b.data = context.in<float>(1);
  g.c = context.out<float>(0);
  g.epilogue.format = context.format;
  set_epilogue<float>(context, g.epilogue);
  gemm(g, pool_of(context), context.workspace);
}

size_t matmul_workspace(const KernelShape& shape) {
  const Gemm g =
      matmul_shape(shape.inputs[0].shape, shape.inputs[1].shape, shape.outputs[0].shape, shape.attrs);
  return gemm_workspace_bytes(g, shape.threads);
}

Bf16Product bf16_shape(const Gemm& g) {
  const auto operand = [](const GemmOperand& from) {
    return Bf16Operand{nullptr, from.stride, from.transpose, from.batch_stride};
  };
  return {.m = g.m, .n = g.n, .k = g.k, .batch = g.batch, .a = operand(g.a), .b = operand(g.b)};
}

void run_bf16_matmul(const KernelContext& context) {
  Bf16Product p = bf16_shape(matmul_shape(context.inputs[0].shape, context.inputs[1].shape,
                                          context.outputs[0].shape, context.attrs));
  p.a.data = context.in<Bf16>(0);
  p.b.data = context.in<Bf16>(1);
  p.c = context.out<Bf16>(0);
  set_epilogue<Bf16>(context, p);
  multiply_bf16(p, *bf16_instructions(), pool_of(context), context.workspace);
}

size_t bf16_matmul_workspace(const KernelShape& shape) {
  return bf16_product_workspace(bf16_shape(
      matmul_shape(shape.inputs[0].shape, shape.inputs[1].shape, shape.outputs[0].shape, shape.attrs)));
}

}  // namespace

void add_matmul(KernelTable& table) {
  for (const char* op : {"matmul", "matmul_f32"}) table.add(op, DType::f32, {run_matmul, matmul_workspace});
  if (bf16_instructions()) table.add("matmul", DType::bf16, {run_bf16_matmul, bf16_matmul_workspace});
}

}  // namespace trireme::cpu
