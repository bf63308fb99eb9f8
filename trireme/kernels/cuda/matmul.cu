// matmul, with its epilogues, as a product of gemm.h.
#include "trireme/kernels/cuda/device.cuh"
#include "trireme/kernels/cuda/gemm.h"

namespace trireme::cuda {
namespace {

Gemm matmul_shape(const TensorType& a, const TensorType& b, const TensorType& y, const Attrs& attrs) {
  Gemm g;
  g.dtype = a.dtype;
  g.c_dtype = y.dtype;
  g.a.transpose = attrs.integer("transpose_a", 0) ? Transpose::kYes : Transpose::kNo;
  g.b.transpose = attrs.integer("transpose_b", 0) ? Transpose::kYes : Transpose::kNo;
  const bool transpose_a = g.a.transpose == Transpose::kYes, shared_b = b.shape.rank() == 2;
  g.m = y.shape[y.shape.rank() - 2];
  g.n = y.shape.back();
  g.k = transpose_a ? a.shape[a.shape.rank() - 2] : a.shape.back();
  g.batch = y.shape.elements(0, y.shape.rank() - 2);
  if (shared_b && !transpose_a) {  // one tall matrix
    g.m *= g.batch;
    g.batch = 1;
  }
  g.a.stride = a.shape.back();
  g.a.batch_stride = g.m * g.k;
  g.b.stride = b.shape.back();
  g.b.batch_stride = shared_b ? 0 : g.k * g.n;
  g.c_stride = g.n;
  g.c_batch_stride = g.m * g.n;
  return g;
}

TensorType type_of(const TensorView& view) {
  return {view.dtype, view.shape};
}

Gemm product_of(const KernelContext& context) {
  Gemm g = matmul_shape(type_of(context.inputs[0]), type_of(context.inputs[1]), type_of(context.outputs[0]),
                        context.attrs);
  g.a.data = context.inputs[0].data;
  g.b.data = context.inputs[1].data;
  g.c = context.outputs[0].data;
  return g;
}

void matmul(const KernelContext& context) {
  Gemm g = product_of(context);
  const std::string_view epilogue = context.attrs.text("epilogue", "none");
  if (epilogue.starts_with("bias")) g.bias = context.inputs[2].data;
  if (epilogue == "residual") g.residual = context.inputs[2].data;
  if (epilogue == "bias_residual") g.residual = context.inputs[3].data;
  if (epilogue == "bias_gelu") g.pre = context.outputs[1].data;
  multiply(g, context_of(context), context.workspace);
}

void matmul_f32(const KernelContext& context) {
  Gemm g = product_of(context);
  g.exact = true;
  multiply(g, context_of(context), context.workspace);
}

void matmul_gelu_grad(const KernelContext& context) {
  Gemm g = product_of(context);
  g.gelu_at = context.inputs[2].data;
  multiply(g, context_of(context), context.workspace);
}
// Where cuBLASLt does both at once.
bool gelu_grad_gains(const KernelShape& shape) {
  return shape.outputs[0].dtype != DType::f32 && shape.outputs[0].shape.back() % 8 == 0;
}

size_t matmul_workspace(const KernelShape& shape) {
  return gemm_workspace_bytes(matmul_shape(shape.inputs[0], shape.inputs[1], shape.outputs[0], shape.attrs));
}

}  // namespace

void add_matmul(KernelTable& table) {
  add_for_all_formats(table, "matmul", {matmul, matmul_workspace});
  table.add("matmul_f32", DType::f32, {matmul_f32, matmul_workspace});
  add_for_all_formats(
      table, "matmul_to_f32",
      {.run = matmul, .workspace_bytes = matmul_workspace, .gains = [](const KernelShape&) { return true; }});
  add_for_all_formats(
      table, "matmul_gelu_grad",
      {.run = matmul_gelu_grad, .workspace_bytes = matmul_workspace, .gains = gelu_grad_gains});
}

}  // namespace trireme::cuda
