// See cudnn_plans.h.
#include "trireme/kernels/cuda/cudnn_library.h"
#include "trireme/kernels/cuda/cudnn_plans.h"
#include "trireme/kernels/kernel.h"

namespace trireme::cuda {

std::shared_ptr<CudnnPlans> make_cudnn_plans(cudaStream_t stream) {
  return std::make_shared<CudnnPlans>(stream);
}

CudnnPlans::~CudnnPlans() {
  plans_.clear();
  if (handle_) cudnn()->cudnnDestroy(handle_);
}

const CudnnPlan* CudnnPlans::find(const Key& key, size_t most_workspace,
                                  const std::function<CudnnGraph()>& build, CudnnFactors factors) {
  if (!cudnn()) return nullptr;
  if (const auto found = plans_.find(key); found != plans_.end())
    return found->second ? &*found->second : nullptr;
  if (!handle_) {
    if (cudnn()->cudnnCreate(&handle_) != CUDNN_STATUS_SUCCESS ||
        cudnn()->cudnnSetStream(handle_, stream_) != CUDNN_STATUS_SUCCESS)
      throw DeviceError("cuDNN does not start; is it made for this driver?");
  }
  std::optional<CudnnPlan>& plan = plans_[key];
  try {
    plan = CudnnPlan::of(build(), handle_, most_workspace, factors);
  } catch (const DeviceError&) {
    // A graph that cuDNN takes offence at is computed by a kernel of our own, like one without an engine.
  }
  return plan ? &*plan : nullptr;
}

void CudnnPlans::run(const CudnnPlan& plan, std::span<const CudnnPlan::Binding> bindings,
                     std::byte* workspace) {
  plan.run(handle_, bindings, workspace);
}

}  // namespace trireme::cuda
