// The kinds of devices, by the names that settings use.
#include "trireme/runtime/device.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/runtime/cuda_debug.h"

namespace trireme {

void Stream::launch_many(const Kernel& kernel, std::span<const LaunchArguments> nodes) {
  for (const LaunchArguments& node : nodes)
    launch(kernel, node.inputs, node.outputs, *node.attrs, nullptr, nullptr);
}

std::unique_ptr<Replay> Stream::capture(const std::function<void()>&) {
  return nullptr;
}

std::unique_ptr<Device> make_device(const DeviceOptions& options) {
  if (options.kind == "cpu") {
    if (options.f32_products == F32Products::kTf32)
      throw_error("train.tf32 is for train.device=cuda; a CPU multiplies f32 as it is");
    return make_cpu_device(options.threads);
  }
  const int gpu = options.rank_here % std::max(1, cuda_device_count());
  if (options.kind == "cuda") return make_cuda_device(gpu, options.products, options.f32_products);
  if (options.kind == "cuda_debug")
    return make_cuda_debug_device(gpu, options.products, options.f32_products);
  throw_error("there is no device '{}'; cpu, cuda or cuda_debug expected", options.kind);
}

}  // namespace trireme
