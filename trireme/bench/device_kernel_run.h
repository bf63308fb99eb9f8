// A kernel of a device other than the CPU, with the operands of a run in host memory.
#pragma once

#include <vector>

#include "trireme/bench/kernel_run.h"
#include "trireme/runtime/device.h"

namespace trireme::bench {

class DeviceKernelRun {
 public:
  // Operands that follow the format of a model (DTypeRule) lie on the device in `format`; those of `host`,
  // which outlives this, are rounded to it, so that both stand for the same numbers. Throws an Error where
  // the device has no kernel for it.
  DeviceKernelRun(KernelRun& host, Device& device, DType format);

  Cost cost() const;
  void run();                                     // may return before it is done
  std::vector<std::vector<std::byte>> results();  // as they lie on the device
  void read_results();                            // into those of the host, as f32
  // Of one run among many that are launched together, on operands that are cold where they fill the caches.
  double median_seconds(double budget_seconds);

 private:
  TensorView allocate(const TensorType& type);

  KernelRun& host_;
  Device& device_;
  std::unique_ptr<Stream> stream_;
  std::vector<TensorType> input_types_, output_types_;
  const Kernel* kernel_ = nullptr;
  std::vector<Buffer> memory_;
  std::vector<TensorView> inputs_, outputs_;
  std::byte* workspace_ = nullptr;
};

}  // namespace trireme::bench
