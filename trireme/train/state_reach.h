// How checkpoints and comparisons get at the states of an executor, on whatever device and in whatever format
// they are.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trireme/checkpoint/tensor_part.h"
#include "trireme/runtime/executor.h"

namespace trireme {

// The executor must outlive the result.
inline TensorReach reach_of(Executor& executor, const std::string& state) {
  return {.read = [&executor, state](size_t offset, void* to,
                                     size_t bytes) { executor.read_state(state, offset, to, bytes); },
          .write = [&executor, state](size_t offset, const void* from,
                                      size_t bytes) { executor.write_state(state, offset, from, bytes); }};
}

// A 16-bit parameter is known by an f32 master beside it: that is what checkpoints have.
inline bool has_master(Role role, const TensorType& type) {
  return role == Role::kParameter && type.dtype != DType::f32;
}
// The name of a state in checkpoints: of a master, the parameter's.
inline std::string saved_name(const std::string& name, Role role, const Attrs& attrs) {
  return role == Role::kMaster ? attrs.text("of") : name;
}

// The state's numbers as f32, and back: to 16 bits they are rounded to nearest even, as kernels do.
std::vector<float> read_numbers(Executor& executor, const State& slot);
void write_numbers(Executor& executor, const State& slot, std::span<const float> values);

// For files that have f32 of what the state keeps in 16 bits. The executor must outlive the result.
TensorReach rounding_reach(Executor& executor, const State& slot);

// A view of the state's type, without memory.
inline TensorView view_of(const State& slot) {
  return {nullptr, slot.type.dtype, slot.type.shape};
}

}  // namespace trireme
