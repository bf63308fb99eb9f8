// See state_reach.h.
#include "trireme/train/state_reach.h"

#include "trireme/base/error.h"

namespace trireme {
namespace {

template <typename T>
std::vector<T> rounded(std::span<const float> values) {
  std::vector<T> result(values.size());
  for (size_t i = 0; i < values.size(); ++i) result[i] = T(values[i]);
  return result;
}

template <typename T>
std::vector<float> read_as(Executor& executor, const State& slot) {
  std::vector<T> stored(slot.type.shape.elements());
  executor.read_state(slot.name, stored.data(), slot.type.bytes());
  return {stored.begin(), stored.end()};
}

// `values` are the state's from element `first` on.
template <typename T>
void write_as(Executor& executor, const State& slot, size_t first, std::span<const float> values) {
  const std::vector<T> stored = rounded<T>(values);
  executor.write_state(slot.name, first * sizeof(T), stored.data(), stored.size() * sizeof(T));
}

void write_from(Executor& executor, const State& slot, size_t first, std::span<const float> values) {
  switch (slot.type.dtype) {
    case DType::bf16:
      return write_as<Bf16>(executor, slot, first, values);
    case DType::f16:
      return write_as<F16>(executor, slot, first, values);
    default:
      TRIREME_CHECK(slot.type.dtype == DType::f32);
      return executor.write_state(slot.name, first * sizeof(float), values.data(), values.size_bytes());
  }
}

}  // namespace

std::vector<float> read_numbers(Executor& executor, const State& slot) {
  switch (slot.type.dtype) {
    case DType::bf16:
      return read_as<Bf16>(executor, slot);
    case DType::f16:
      return read_as<F16>(executor, slot);
    default:
      TRIREME_CHECK(slot.type.dtype == DType::f32);
      return read_as<float>(executor, slot);
  }
}

void write_numbers(Executor& executor, const State& slot, std::span<const float> values) {
  TRIREME_CHECK(std::ssize(values) == slot.type.shape.elements());
  write_from(executor, slot, 0, values);
}

TensorReach rounding_reach(Executor& executor, const State& slot) {
  return {.write = [&executor, &slot](size_t offset, const void* from, size_t bytes) {
    write_from(executor, slot, offset / sizeof(float),
               {static_cast<const float*>(from), bytes / sizeof(float)});
  }};
}

}  // namespace trireme
