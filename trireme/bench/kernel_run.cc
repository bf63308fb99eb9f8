// See kernel_run.h.
#include "trireme/bench/kernel_run.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <new>

#include "trireme/base/error.h"
#include "trireme/base/rng.h"
#include "trireme/kernels/cpu/context.h"
#include "trireme/ops/table.h"

namespace trireme::bench {
namespace {

constexpr size_t kAlignment = 4096;

std::unique_ptr<std::byte, void (*)(void*)> aligned_bytes(size_t bytes) {
  const size_t size = (bytes + kAlignment) / kAlignment * kAlignment;
  void* data = std::aligned_alloc(kAlignment, size);
  if (!data) throw std::bad_alloc();
  std::memset(data, 0, size);
  return {static_cast<std::byte*>(data), std::free};
}

// From low to high, four elements from each block of the stream: some inputs have millions.
template <typename T>
void fill_uniform(const TensorView& view, const CaseInput& range, RngKey key) {
  T* const data = view.as<T>();
  for (int64_t i = 0; i < view.elements(); i += 4) {
    const std::array<uint32_t, 4> words = random_words(key, static_cast<uint64_t>(i));
    for (int64_t j = 0; j < std::min<int64_t>(4, view.elements() - i); ++j)
      data[i + j] = static_cast<T>(range.low + (range.high - range.low) * (words[j] * 0x1p-32));
  }
}

std::vector<TensorType> types_of(const std::vector<CaseInput>& inputs) {
  std::vector<TensorType> types;
  for (const CaseInput& input : inputs) types.push_back({input.dtype, input.shape});
  return types;
}

const Kernel& kernel_of(std::string_view op) {
  const Kernel* kernel = cpu_kernels().find(op, DType::f32);
  if (!kernel) throw_error("there is no CPU kernel for {} in f32", op);
  return *kernel;
}

}  // namespace

KernelRun::KernelRun(std::string_view op, const std::vector<CaseInput>& inputs, Attrs attrs, Results results)
    : op_(ops().at(op)),
      kernel_(kernel_of(op)),
      input_types_(types_of(inputs)),
      output_types_(infer_types(op_, input_types_, attrs)),
      attrs_(std::move(attrs)) {
  for (const CaseInput& input : inputs) {
    const RngKey key{1, stream_id(op) + inputs_.size()};
    inputs_.push_back(allocate(input_types_[inputs_.size()]));
    if (input.dtype == DType::i32)
      fill_uniform<int32_t>(inputs_.back(), input, key);
    else
      fill_uniform<float>(inputs_.back(), input, key);
  }
  for (size_t i = 0; i < output_types_.size(); ++i) {
    outputs_.push_back({nullptr, output_types_[i].dtype, output_types_[i].shape});
    for (const InPlace& pair : op_.in_place) {
      if (results == Results::kOverInputs && pair.output == static_cast<int>(i))
        outputs_[i].data = inputs_[pair.input].data;
    }
    if (!outputs_[i].data) outputs_[i] = allocate(output_types_[i]);
  }
}

TensorView KernelRun::allocate(const TensorType& type) {
  memory_.push_back(aligned_bytes(type.bytes()));
  return {memory_.back().get(), type.dtype, type.shape};
}

Cost KernelRun::cost() const {
  return cost_of(op_, input_types_, attrs_);
}

void KernelRun::run(ThreadPool& pool) {
  if (workspace_threads_ != pool.threads()) {
    workspace_ = aligned_bytes(kernel_.workspace({input_types_, output_types_, attrs_, pool.threads()}));
    workspace_threads_ = pool.threads();
  }
  cpu::CpuContext context(pool);
  kernel_.launch({inputs_, outputs_, attrs_, context, workspace_.get()});
}

}  // namespace trireme::bench
