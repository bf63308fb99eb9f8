// rms_norm, alone or after a residual sum, and its gradient.
#include "trireme/kernels/cuda/norm.cuh"

namespace trireme::cuda {
namespace {

enum class Residual { kNo, kYes };

template <Residual kResidual>
void rms_norm(const KernelContext& context) {
  const Shape& shape = context.inputs[0].shape;
  if (shape.elements() == 0) return;
  constexpr int kMore = kResidual == Residual::kYes ? 1 : 0;
  with_format(context.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const NormRows<T> rows{.x = in<T>(context, 0),
                           .residual = kMore ? in<T>(context, 1) : nullptr,
                           .gain = in<T>(context, 1 + kMore),
                           .bias = nullptr,
                           .sum = kMore ? out<T>(context, 0) : nullptr,
                           .y = out<T>(context, kMore),
                           .mean = nullptr,
                           .rstd = out<float>(context, 1 + kMore),
                           .rows = shape.elements() / shape.back(),
                           .width = shape.back(),
                           .eps = static_cast<float>(context.attrs.real("eps"))};
    norm_rows<T, Centre::kNone>(context, rows);
  });
}

template <Residual kResidual>
void rms_norm_grad(const KernelContext& context) {
  const Shape& shape = context.inputs[1].shape;
  const int64_t width = shape.back();
  with_format(context.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    norm_grad<T, Centre::kNone>(
        context, {in<T>(context, 0), in<T>(context, 1), in<T>(context, 2), nullptr, in<float>(context, 3),
                  out<T>(context, 0), out<T>(context, 1), nullptr, width ? shape.elements() / width : 0,
                  width, kResidual == Residual::kYes ? in<T>(context, 4) : nullptr});
  });
}

}  // namespace

void add_rms_norm(KernelTable& table) {
  add_for_all_formats(table, "add_rms_norm", {rms_norm<Residual::kYes>});
  add_for_all_formats(table, "rms_norm", {rms_norm<Residual::kNo>});
  add_for_all_formats(table, "rms_norm_grad", {rms_norm_grad<Residual::kNo>, norm_grad_workspace});
  add_for_all_formats(table, "rms_norm_grad_add",
                      {.run = rms_norm_grad<Residual::kYes>,
                       .workspace_bytes = norm_grad_workspace,
                       .gains = [](const KernelShape&) { return true; }});
}

}  // namespace trireme::cuda
