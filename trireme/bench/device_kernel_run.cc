// DeviceKernelRun; see kernel_run.h. A launch takes as long as many a kernel, so that several are noted down
// and replayed as one.
#include <algorithm>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/statistics.h"
#include "trireme/bench/kernel_run.h"

namespace trireme::bench {
namespace {

constexpr int kLeastDeviceRuns = 5;
constexpr double kBatchSeconds = 2e-3;  // of launches that are timed together
constexpr int kMostLaunches = 200;

// Calls body(as) with a value of the type that the format has in memory.
template <typename Body>
void with_half(DType format, const Body& body) {
  format == DType::bf16 ? body(Bf16()) : body(F16());
}

// Records say it where it is not kFormat for all inputs.
bool follows(const OpRecord& op, size_t input) {
  const DTypeRule rule = input < op.inputs.size() ? op.inputs[input] : DTypeRule::kFormat;
  return rule == DTypeRule::kFormat || rule == DTypeRule::kAny;
}

// f32 in host memory as bytes in a 16-bit format; what is there becomes what was kept.
std::vector<std::byte> rounded(const TensorView& view, DType format) {
  std::vector<std::byte> bytes(static_cast<size_t>(view.elements()) * size_of(format));
  with_half(format, [&](auto as) {
    using Half = decltype(as);
    float* const values = view.as<float>();
    auto* const to = reinterpret_cast<Half*>(bytes.data());
    for (int64_t i = 0; i < view.elements(); ++i) {
      to[i] = Half(values[i]);
      values[i] = static_cast<float>(to[i]);
    }
  });
  return bytes;
}

}  // namespace

DeviceKernelRun::DeviceKernelRun(KernelRun& host, Device& device, DType format)
    : host_(host), device_(device), stream_(device.make_stream()), input_types_(host.input_types()) {
  DType dtype = format;
  bool found = false;
  for (size_t i = 0; i < input_types_.size(); ++i) {
    if (input_types_[i].dtype != DType::f32) continue;
    if (follows(host.op(), i)) input_types_[i].dtype = format;
    if (!std::exchange(found, true)) dtype = input_types_[i].dtype;
  }
  kernel_ = device.kernels().find(host.op().name, dtype);
  if (!kernel_)
    throw_error("the device '{}' has no kernel for {} in {}", device.name(), host.op().name,
                trireme::name(dtype));
  output_types_ = infer_types(host.op(), input_types_, host.attrs());
  for (size_t i = 0; i < input_types_.size(); ++i) {
    const TensorView& from = host.inputs()[i];
    inputs_.push_back(allocate(input_types_[i]));
    auto* const to = static_cast<std::byte*>(inputs_.back().data);
    if (input_types_[i].dtype == from.dtype)
      stream_->upload(to, from.data, from.bytes());
    else
      stream_->upload(to, rounded(from, format).data(), input_types_[i].bytes());
  }
  for (size_t i = 0; i < output_types_.size(); ++i) {
    const auto over = std::ranges::find(host.inputs(), host.outputs()[i].data, &TensorView::data);
    if (over == host.inputs().end())
      outputs_.push_back(allocate(output_types_[i]));
    else
      outputs_.push_back({inputs_[static_cast<size_t>(over - host.inputs().begin())].data,
                          output_types_[i].dtype, output_types_[i].shape});
  }
  memory_.push_back(
      device.allocate(kernel_->workspace({input_types_, output_types_, host.attrs(), device.threads()})));
  workspace_ = memory_.back().data();
}

TensorView DeviceKernelRun::allocate(const TensorType& type) {
  memory_.push_back(device_.allocate(type.bytes()));
  return {memory_.back().data(), type.dtype, type.shape};
}

Cost DeviceKernelRun::cost() const {
  return cost_of(host_.op(), input_types_, host_.attrs());
}

void DeviceKernelRun::run() {
  stream_->launch(*kernel_, inputs_, outputs_, host_.attrs(), workspace_, nullptr);
}

std::vector<std::vector<std::byte>> DeviceKernelRun::results() {
  std::vector<std::vector<std::byte>> all;
  for (const TensorView& output : outputs_) {
    all.emplace_back(output.bytes());
    stream_->download(all.back().data(), static_cast<const std::byte*>(output.data), output.bytes());
  }
  return all;
}

void DeviceKernelRun::read_results() {
  const std::vector<std::vector<std::byte>> all = results();
  for (size_t i = 0; i < all.size(); ++i) {
    const TensorView& to = host_.outputs()[i];
    if (to.dtype == outputs_[i].dtype) {
      std::ranges::copy(all[i], static_cast<std::byte*>(to.data));
      continue;
    }
    with_half(outputs_[i].dtype, [&](auto as) {
      const auto* from = reinterpret_cast<const decltype(as)*>(all[i].data());
      for (int64_t k = 0; k < to.elements(); ++k) to.as<float>()[k] = static_cast<float>(from[k]);
    });
  }
}

double DeviceKernelRun::median_seconds(double budget_seconds) {
  const auto timed = [&](const auto& work) {
    const Clock::time_point begin = Clock::now();
    work();
    stream_->synchronize();
    return seconds_since(begin);
  };
  run();  // sets up what the kernel needs
  stream_->synchronize();
  const double alone = timed([&] { run(); });
  const int count = std::clamp(static_cast<int>(kBatchSeconds / alone), 1, kMostLaunches);
  const auto launches = [&] {
    for (int i = 0; i < count; ++i) run();
  };
  const std::unique_ptr<Replay> replay = stream_->capture(launches);
  const auto batch = [&] { replay ? replay->launch() : launches(); };
  timed(batch);
  std::vector<double> seconds;
  for (double spent = 0; static_cast<int>(seconds.size()) < kLeastDeviceRuns || spent < budget_seconds;) {
    seconds.push_back(timed(batch) / count);
    spent += seconds.back() * count;
  }
  return median_of(std::move(seconds));
}

}  // namespace trireme::bench
