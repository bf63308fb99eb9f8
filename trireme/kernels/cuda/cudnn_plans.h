// The plans that a context has made, by what they compute.
#pragma once

#include <array>
#include <functional>
#include <map>

#include "trireme/kernels/cuda/context.h"
#include "trireme/kernels/cuda/cudnn_graph.h"

namespace trireme::cuda {

class CudnnPlans {
 public:
  explicit CudnnPlans(cudaStream_t stream) : stream_(stream) {}
  ~CudnnPlans();
  CudnnPlans(const CudnnPlans&) = delete;

  // All that a graph depends on, the kind of graph first.
  using Key = std::array<int64_t, 16>;
  // Null where there is no plan for it. `build` is called once per key.
  const CudnnPlan* find(const Key& key, size_t most_workspace, const std::function<CudnnGraph()>& build,
                        CudnnFactors factors = CudnnFactors::kOfTensorCores);
  void run(const CudnnPlan& plan, std::span<const CudnnPlan::Binding> bindings, std::byte* workspace);

 private:
  cudaStream_t stream_;
  cudnnHandle_t handle_ = nullptr;
  std::map<Key, std::optional<CudnnPlan>> plans_;
};

// cuDNN's own workspace within that of a kernel: it begins at a multiple of 256 bytes.
inline constexpr size_t kCudnnAlignment = 256;
inline std::byte* cudnn_aligned(std::byte* memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  return memory + (kCudnnAlignment - address % kCudnnAlignment) % kCudnnAlignment;
}

}  // namespace trireme::cuda
