// The kinds of devices, by the names that settings use.
#include "trireme/runtime/device.h"

#include <algorithm>
#include <chrono>

#include "trireme/base/error.h"
#include "trireme/runtime/nccl.h"
#include "trireme/runtime/staged_communicator.h"

namespace trireme {
namespace {

class HostMark : public Mark {
 public:
  double seconds_since(const Mark& earlier) const override {
    return std::chrono::duration<double>(time_ - static_cast<const HostMark&>(earlier).time_).count();
  }

 private:
  std::chrono::steady_clock::time_point time_ = std::chrono::steady_clock::now();
};

}  // namespace

void Stream::launch_many(const Kernel& kernel, std::span<const LaunchArguments> nodes) {
  for (const LaunchArguments& node : nodes)
    launch(kernel, node.inputs, node.outputs, *node.attrs, nullptr, nullptr);
}

std::unique_ptr<Replay> Stream::capture(const std::function<void()>&) {
  return nullptr;
}

std::unique_ptr<Mark> Stream::mark() {
  synchronize();
  return std::make_unique<HostMark>();
}

std::unique_ptr<Communicator> Device::reached_by(Communicator& host, Stream& stream, const CommUse&) {
  if (memory() == Memory::kOfHost) return nullptr;
  return std::make_unique<StagedCommunicator>(host, stream);
}

void check_links(const std::string& kind, comm::DeviceLinks links) {
  if (links != comm::DeviceLinks::nccl) return;
  if (kind == "cpu")
    throw_error(
        "--transport nccl moves the memory of GPUs, and train.device is cpu: set train.device=cuda, or leave "
        "--transport out");
  require_nccl();
}

std::unique_ptr<Device> make_device(const DeviceOptions& options) {
  check_links(options.kind, options.links);
  if (options.kind == "cpu") {
    if (options.f32_products == F32Products::kTf32)
      throw_error("train.tf32 is for train.device=cuda; a CPU multiplies f32 as it is");
    return make_cpu_device(options.threads);
  }
  const int gpu = options.rank_here % std::max(1, cuda_device_count());
  if (options.kind == "cuda")
    return make_cuda_device(gpu, options.products, options.f32_products, options.links);
  if (options.kind == "cuda_debug")
    return make_cuda_debug_device(gpu, options.products, options.f32_products, options.links);
  throw_error("there is no device '{}'; cpu, cuda or cuda_debug expected", options.kind);
}

}  // namespace trireme
