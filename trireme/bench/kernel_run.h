// One kernel with its operands in memory, ready to be run: on a pool, or on another device.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "trireme/base/thread_pool.h"
#include "trireme/bench/cases/op_case.h"
#include "trireme/ir/op_record.h"
#include "trireme/kernels/kernel.h"
#include "trireme/runtime/device.h"

namespace trireme::bench {

// Where results go. kOverInputs: over the inputs that the op's record allows, as in a training step.
enum class Results { kOwnMemory, kOverInputs };

class KernelRun {
 public:
  // Operands are random, in the range of each.
  KernelRun(std::string_view op, const std::vector<CaseInput>& inputs, Attrs attrs, Results results);

  const OpRecord& op() const { return op_; }
  const std::vector<TensorType>& input_types() const { return input_types_; }
  const Attrs& attrs() const { return attrs_; }
  const std::vector<TensorView>& inputs() const { return inputs_; }
  const std::vector<TensorView>& outputs() const { return outputs_; }
  const Shape& shape(int input) const { return inputs_[input].shape; }
  float* in(int i) const { return inputs_[i].as<float>(); }
  float* out(int i) const { return outputs_[i].as<float>(); }
  Cost cost() const;

  void run(ThreadPool& pool);

 private:
  TensorView allocate(const TensorType& type);

  const OpRecord& op_;
  const Kernel& kernel_;
  std::vector<TensorType> input_types_, output_types_;
  Attrs attrs_;
  std::vector<TensorView> inputs_, outputs_;
  std::vector<std::unique_ptr<std::byte, void (*)(void*)>> memory_;
  std::unique_ptr<std::byte, void (*)(void*)> workspace_{nullptr, nullptr};
  int workspace_threads_ = 0;  // that the workspace is large enough for
};

// A kernel of a device other than the CPU, with the operands of a run in host memory.
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
