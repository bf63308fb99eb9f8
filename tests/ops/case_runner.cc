// Conversion between double-precision reference tensors and kernel memory; see case_runner.h.
#include "tests/ops/case_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "tests/support/allocation_count.h"
#include "trireme/base/rng.h"
#include "trireme/kernels/composed.h"
#include "trireme/kernels/cpu/context.h"

namespace trireme::testing {
namespace {

constexpr size_t kGuardBytes = 64;
constexpr std::byte kGarbage{0xcb};  // as a float about −2.7e7: never a plausible result

template <typename T>
double load(const std::byte* data, int64_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  if constexpr (std::is_same_v<T, Bf16> || std::is_same_v<T, F16>)
    return static_cast<double>(static_cast<float>(value));
  else
    return static_cast<double>(value);
}
template <typename T>
void store(std::byte* data, int64_t i, double value) {
  T typed;
  if constexpr (std::is_same_v<T, Bf16> || std::is_same_v<T, F16>)
    typed = T(static_cast<float>(value));
  else
    typed = static_cast<T>(value);
  std::memcpy(data + i * sizeof(T), &typed, sizeof(T));
}

template <typename F>
auto with_dtype(DType dtype, const F& f) {
  switch (dtype) {
    case DType::f64:
      return f(double{});
    case DType::f32:
      return f(float{});
    case DType::f16:
      return f(F16{});
    case DType::bf16:
      return f(Bf16{});
    case DType::i64:
      return f(int64_t{});
    case DType::i32:
      return f(int32_t{});
    case DType::u8:
      return f(uint8_t{});
  }
  TRIREME_CHECK(false);
  return f(float{});
}

}  // namespace

double load(DType dtype, const std::byte* data, int64_t i) {
  return with_dtype(dtype, [&](auto zero) { return load<decltype(zero)>(data, i); });
}
void store(DType dtype, std::byte* data, int64_t i, double value) {
  with_dtype(dtype, [&](auto zero) { store<decltype(zero)>(data, i, value); });
}
DType format_of(const RefTensors& inputs, const std::vector<TensorType>& outputs) {
  for (const RefTensor& input : inputs) {
    if (is_float(input.dtype)) return input.dtype;
  }
  return outputs.at(0).dtype;
}

namespace {

// A tensor in memory with guard bytes on both sides, 64-byte aligned.
class Guarded {
 public:
  explicit Guarded(const TensorType& type)
      : type_(type), memory_(static_cast<std::byte*>(std::aligned_alloc(64, size()))) {
    std::memset(memory_.get(), static_cast<int>(kGarbage), size());
  }
  TensorView view() const { return {memory_.get() + kGuardBytes, type_.dtype, type_.shape}; }
  std::byte* data() const { return memory_.get() + kGuardBytes; }
  bool guards_intact() const {
    for (size_t i = 0; i < kGuardBytes; ++i) {
      if (memory_[i] != kGarbage || data()[type_.bytes() + i] != kGarbage) return false;
    }
    return true;
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  size_t size() const { return (type_.bytes() + 2 * kGuardBytes + 63) / 64 * 64; }
  TensorType type_;
  std::unique_ptr<std::byte[], Free> memory_;
};

}  // namespace

RefTensors random_inputs(const OpCase& one, DType format, uint64_t seed) {
  RefTensors inputs;
  for (size_t i = 0; i < one.inputs.size(); ++i) {
    const CaseInput& spec = one.inputs[i];
    const bool follows = spec.dtype == DType::f32 && spec.format == CaseInput::Format::kFollows;
    RefTensor tensor = RefTensor::zeros(spec.shape, follows ? format : spec.dtype);
    for (size_t k = 0; k < tensor.values.size(); ++k) {
      const auto words = random_words({seed, stream_id(one.op + one.label) + i}, k);
      double value = spec.low + (spec.high - spec.low) * (words[0] * 0x1p-32);
      if (!is_float(spec.dtype)) value = std::floor(value);
      std::byte bytes[8];
      store(tensor.dtype, bytes, 0, value);
      tensor.values[k] = load(tensor.dtype, bytes, 0);
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

std::vector<TensorType> types_of(const RefTensors& tensors) {
  std::vector<TensorType> types;
  for (const RefTensor& tensor : tensors) types.push_back({tensor.dtype, tensor.shape});
  return types;
}

RefTensors run_kernel(const std::string& op, const Attrs& attrs, const RefTensors& inputs,
                      const std::vector<TensorType>& outputs, int threads,
                      const std::vector<InPlace>& in_place) {
  std::vector<Guarded> memory;
  std::vector<TensorType> input_types;
  std::vector<TensorView> input_views, output_views;
  const DType format = format_of(inputs, outputs);
  for (const RefTensor& input : inputs) {
    input_types.push_back({input.dtype, input.shape});
    memory.emplace_back(input_types.back());
    for (size_t k = 0; k < input.values.size(); ++k)
      store(input.dtype, memory.back().data(), k, input.values[k]);
    input_views.push_back(memory.back().view());
  }
  for (const TensorType& type : outputs) {
    memory.emplace_back(type);
    output_views.push_back(memory.back().view());
  }
  for (const InPlace& shared : in_place) {
    TRIREME_CHECK(outputs[shared.output] == input_types[shared.input]);
    output_views[shared.output].data = input_views[shared.input].data;
  }

  const Kernel* kernel = cpu_kernels().find(op, format);
  if (!kernel) {
    ADD_FAILURE() << "no CPU kernel for " << op << " in " << format;
    return {};
  }
  ThreadPool pool(threads);
  cpu::CpuContext context(pool);
  const KernelShape shape{input_types, outputs, attrs, threads};
  Guarded workspace({DType::u8, Shape{static_cast<int64_t>(kernel->workspace(shape))}});
  const int64_t allocated = allocation_count();
  kernel->launch({input_views, output_views, attrs, context, workspace.data()});
  // One that is composed of others makes lists on its way, and is in no program for a CPU.
  const bool composed = std::ranges::find(composed_ops(), op, &ComposedOp::op) != composed_ops().end();
  EXPECT_TRUE((composed || allocation_count() == allocated)) << op << " allocates while it runs";

  EXPECT_TRUE(workspace.guards_intact()) << op << " wrote outside its workspace";
  RefTensors results;
  for (size_t i = 0; i < memory.size(); ++i) {
    EXPECT_TRUE(memory[i].guards_intact()) << op << " wrote outside tensor " << i;
    if (i < inputs.size()) continue;
    const TensorType& type = outputs[i - inputs.size()];
    RefTensor result = RefTensor::zeros(type.shape, type.dtype);
    const std::byte* data = static_cast<const std::byte*>(output_views[results.size()].data);
    for (size_t k = 0; k < result.values.size(); ++k) result.values[k] = load(type.dtype, data, k);
    results.push_back(std::move(result));
  }
  return results;
}

double relative_difference(const RefTensor& a, const RefTensor& b) {
  double scale = 0, worst = 0;
  for (double value : b.values) {
    if (std::isfinite(value)) scale = std::max(scale, std::abs(value));
  }
  if (scale < 1e-30) scale = 1;
  for (size_t i = 0; i < b.values.size(); ++i) {
    if (a.values[i] == b.values[i] || (std::isnan(a.values[i]) && std::isnan(b.values[i]))) continue;
    const double difference = std::abs(a.values[i] - b.values[i]) / scale;
    worst = std::max(worst, std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference);
  }
  return worst;
}

}  // namespace trireme::testing
