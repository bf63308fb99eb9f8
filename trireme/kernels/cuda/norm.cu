// layer_norm and rms_norm, alone or after a residual sum, and their gradients. rms_norm takes no mean away and
// has no bias.
#include <string>

#include "trireme/kernels/cuda/norm.cuh"

namespace trireme::cuda {
namespace {

enum class Residual { kNo, kYes };

template <Centre kCentre, Residual kResidual>
void norm(const KernelContext& context) {
  const Shape& shape = context.inputs[0].shape;
  if (shape.elements() == 0) return;
  constexpr int kMore = kResidual == Residual::kYes ? 1 : 0, kMean = kCentre == Centre::kMean ? 1 : 0;
  with_format(context.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const NormRows<T> rows{.x = in<T>(context, 0),
                           .residual = kMore ? in<T>(context, 1) : nullptr,
                           .gain = in<T>(context, 1 + kMore),
                           .bias = kMean ? in<T>(context, 2 + kMore) : nullptr,
                           .sum = kMore ? out<T>(context, 0) : nullptr,
                           .y = out<T>(context, kMore),
                           .mean = kMean ? out<float>(context, 1 + kMore) : nullptr,
                           .rstd = out<float>(context, 1 + kMore + kMean),
                           .rows = shape.elements() / shape.back(),
                           .width = shape.back(),
                           .eps = static_cast<float>(context.attrs.real("eps"))};
    norm_rows<T, kCentre>(context, rows);
  });
}

template <Centre kCentre, Residual kResidual>
void grad_of_norm(const KernelContext& context) {
  const Shape& shape = context.inputs[1].shape;
  const int64_t width = shape.back();
  constexpr bool kAdds = kResidual == Residual::kYes;
  constexpr int kMean = kCentre == Centre::kMean ? 1 : 0;
  with_format(context.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    norm_grad<T, kCentre>(
        context,
        {in<T>(context, 0), in<T>(context, 1), in<T>(context, 2), kMean ? in<float>(context, 3) : nullptr,
         in<float>(context, 3 + kMean), out<T>(context, 0), out<T>(context, 1),
         kMean ? out<T>(context, 2) : nullptr, width ? shape.elements() / width : 0, width,
         kAdds ? in<T>(context, 4 + kMean) : nullptr, kAdds && kMean ? out<T>(context, 3) : nullptr});
  });
}

template <Centre kCentre>
void add_norm(KernelTable& table, const std::string& name) {
  add_for_all_formats(table, "add_" + name, {norm<kCentre, Residual::kYes>});
  add_for_all_formats(table, name, {norm<kCentre, Residual::kNo>});
  add_for_all_formats(table, name + "_grad", {grad_of_norm<kCentre, Residual::kNo>, norm_grad_workspace});
  add_for_all_formats(table, name + "_grad_add",
                      {.run = grad_of_norm<kCentre, Residual::kYes>,
                       .workspace_bytes = norm_grad_workspace,
                       .gains = [](const KernelShape&) { return true; }});
}

}  // namespace

void add_layer_norm(KernelTable& table) {
  add_norm<Centre::kMean>(table, "layer_norm");
}

void add_rms_norm(KernelTable& table) {
  add_norm<Centre::kNone>(table, "rms_norm");
}

}  // namespace trireme::cuda
