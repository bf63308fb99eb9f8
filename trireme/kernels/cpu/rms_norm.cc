// rms_norm, add_rms_norm and rms_norm_grad; see norm-inl.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/kernels/cpu/rms_norm.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first
#include "trireme/kernels/cpu/norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {

void add_rms_norm_kernels(KernelTable& table) {
  table.add("rms_norm", DType::f32, {run_norm<Norm::kRms, Residual::kNone>});
  table.add("add_rms_norm", DType::f32, {run_norm<Norm::kRms, Residual::kAdded>});
  table.add("rms_norm_grad", DType::f32, {run_norm_grad<Norm::kRms>, norm_grad_workspace<Norm::kRms>});
}

}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::cpu {

HWY_EXPORT(add_rms_norm_kernels);
void add_rms_norm(KernelTable& table) {
  HWY_DYNAMIC_DISPATCH(add_rms_norm_kernels)(table);
}

}  // namespace trireme::cpu
#endif
