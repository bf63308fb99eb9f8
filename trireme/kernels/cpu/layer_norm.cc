// layer_norm, add_layer_norm and layer_norm_grad; see norm-inl.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/kernels/cpu/layer_norm.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first
#include "trireme/kernels/cpu/norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {

void add_layer_norm_kernels(KernelTable& table) {
  table.add("layer_norm", DType::f32, {run_norm<Norm::kLayer, Residual::kNone>});
  table.add("add_layer_norm", DType::f32, {run_norm<Norm::kLayer, Residual::kAdded>});
  table.add("layer_norm_grad", DType::f32, {run_norm_grad<Norm::kLayer>, norm_grad_workspace<Norm::kLayer>});
}

}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::cpu {

HWY_EXPORT(add_layer_norm_kernels);
void add_layer_norm(KernelTable& table) {
  HWY_DYNAMIC_DISPATCH(add_layer_norm_kernels)(table);
}

}  // namespace trireme::cpu
#endif
