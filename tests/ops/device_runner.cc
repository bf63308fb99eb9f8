// See device_runner.h.
#include "tests/ops/device_runner.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace trireme::testing {
namespace {

constexpr size_t kDeviceGuardBytes = 256;  // alignment of what lies between the guards
constexpr std::byte kUnwritten{0xcb};

// A tensor on the device with guard bytes on both sides, and its image in host memory.
class GuardedOnDevice {
 public:
  GuardedOnDevice(Device& device, const TensorType& type)
      : type_(type),
        host_(2 * kDeviceGuardBytes + type.bytes(), kUnwritten),
        memory_(device.allocate(host_.size())) {}
  TensorView view() const { return {memory_.data() + kDeviceGuardBytes, type_.dtype, type_.shape}; }
  std::byte* host() { return host_.data() + kDeviceGuardBytes; }
  void upload(Stream& stream) { stream.upload(memory_.data(), host_.data(), host_.size()); }
  void download(Stream& stream) { stream.download(host_.data(), memory_.data(), host_.size()); }
  bool guards_intact() const {
    const auto intact = [](auto first, auto last) {
      return std::all_of(first, last, [](std::byte b) { return b == kUnwritten; });
    };
    return intact(host_.begin(), host_.begin() + kDeviceGuardBytes) &&
           intact(host_.end() - kDeviceGuardBytes, host_.end());
  }

 private:
  TensorType type_;
  std::vector<std::byte> host_;
  Buffer memory_;
};

}  // namespace

RefTensors run_on_device(Device& device, const std::string& op, const Attrs& attrs, const RefTensors& inputs,
                         const std::vector<TensorType>& outputs, const std::vector<InPlace>& in_place) {
  const std::vector<TensorType> input_types = types_of(inputs);
  const Kernel* kernel = device.kernels().find(op, format_of(inputs, outputs));
  if (!kernel) {
    ADD_FAILURE() << "no kernel for " << op << " in " << format_of(inputs, outputs);
    return {};
  }
  const std::unique_ptr<Stream> stream = device.make_stream();
  const size_t workspace_bytes = kernel->workspace({input_types, outputs, attrs, device.threads()});
  GuardedOnDevice workspace(device, {DType::u8, Shape{static_cast<int64_t>(workspace_bytes)}});
  std::vector<GuardedOnDevice> memory;
  for (const RefTensor& input : inputs) {
    memory.emplace_back(device, TensorType{input.dtype, input.shape});
    for (size_t k = 0; k < input.values.size(); ++k)
      store(input.dtype, memory.back().host(), k, input.values[k]);
  }
  for (const TensorType& type : outputs) memory.emplace_back(device, type);
  std::vector<TensorView> input_views, output_views;
  for (size_t i = 0; i < memory.size(); ++i)
    (i < inputs.size() ? input_views : output_views).push_back(memory[i].view());
  for (const InPlace& shared : in_place) output_views[shared.output].data = input_views[shared.input].data;

  workspace.upload(*stream);
  for (GuardedOnDevice& one : memory) one.upload(*stream);
  stream->launch(*kernel, input_views, output_views, attrs, static_cast<std::byte*>(workspace.view().data),
                 nullptr);
  workspace.download(*stream);
  for (GuardedOnDevice& one : memory) one.download(*stream);

  EXPECT_TRUE(workspace.guards_intact()) << op << " wrote outside its workspace";
  RefTensors results;
  for (size_t i = 0; i < memory.size(); ++i) {
    EXPECT_TRUE(memory[i].guards_intact()) << op << " wrote outside tensor " << i;
    if (i < inputs.size()) continue;
    const int output = static_cast<int>(results.size());
    const auto over = std::ranges::find(in_place, output, &InPlace::output);
    std::byte* const host = over == in_place.end() ? memory[i].host() : memory[over->input].host();
    RefTensor result = RefTensor::zeros(outputs[output].shape, outputs[output].dtype);
    for (size_t k = 0; k < result.values.size(); ++k) result.values[k] = load(result.dtype, host, k);
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace trireme::testing
