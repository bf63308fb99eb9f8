// How checkpoints get at the states of an executor, on whatever device they are.
#pragma once

#include <string>

#include "trireme/runtime/executor.h"
#include "trireme/train/checkpoint/tensor_part.h"

namespace trireme {

// The executor must outlive the result.
inline Reach reach_of(Executor& executor, const std::string& state) {
  return {.read = [&executor, state](size_t offset, void* to,
                                     size_t bytes) { executor.read_state(state, offset, to, bytes); },
          .write = [&executor, state](size_t offset, const void* from,
                                      size_t bytes) { executor.write_state(state, offset, from, bytes); }};
}

// A view of the state's type, without memory.
inline TensorView view_of(const State& slot) {
  return {nullptr, slot.type.dtype, slot.type.shape};
}

}  // namespace trireme
