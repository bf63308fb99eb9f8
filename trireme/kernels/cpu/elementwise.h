// Element-wise work on tensors of any floating-point format, block by block: f32 tensors are used where
// they are, others go through f32 copies of a block that stays in the first-level cache. So one f32
// body serves all formats, and a 16-bit tensor costs no memory traffic beyond its own.
#pragma once

#include <array>
#include <span>

#include "trireme/base/thread_pool.h"
#include "trireme/kernels/cpu/convert.h"
#include "trireme/kernels/cpu/grain.h"
#include "trireme/kernels/kernel.h"

namespace trireme::cpu {

inline constexpr int64_t kBlock = 1024;  // elements of a converted block

// The elements [begin, begin + count) of all tensors.
template <size_t kInputs, size_t kOutputs>
struct Block {
  int64_t begin;
  int64_t count;
  std::array<const float*, kInputs> in;
  std::array<float*, kOutputs> out;
};

// Calls body(block) over disjoint blocks that cover `elements`, in parallel. An output may share its
// memory with an input of the same format.
template <size_t kInputs, size_t kOutputs, typename Body>
void for_blocks(ThreadPool& pool, int64_t elements, std::span<const TensorView> inputs,
                std::span<const TensorView> outputs, const Body& body) {
  TRIREME_CHECK(inputs.size() == kInputs);
  TRIREME_CHECK(outputs.size() == kOutputs);
  bool all_f32 = true;
  for (const TensorView& view : inputs) all_f32 &= view.dtype == DType::f32;
  for (const TensorView& view : outputs) all_f32 &= view.dtype == DType::f32;

  pool.parallel_for(elements, kElementGrain, [&](int64_t first, int64_t last) {
    alignas(64) float copies[kInputs + kOutputs][kBlock];
    const int64_t step = all_f32 ? last - first : kBlock;
    for (int64_t begin = first; begin < last; begin += step) {
      Block<kInputs, kOutputs> block{begin, std::min(step, last - begin), {}, {}};
      for (size_t i = 0; i < kInputs; ++i) {
        if (inputs[i].dtype == DType::f32) {
          block.in[i] = static_cast<const float*>(inputs[i].data) + begin;
        } else {
          widen(inputs[i], begin, block.count, copies[i]);
          block.in[i] = copies[i];
        }
      }
      for (size_t i = 0; i < kOutputs; ++i) {
        const bool direct = outputs[i].dtype == DType::f32;
        block.out[i] = direct ? static_cast<float*>(outputs[i].data) + begin : copies[kInputs + i];
      }
      body(block);
      for (size_t i = 0; i < kOutputs; ++i) {
        if (outputs[i].dtype != DType::f32) narrow(block.out[i], block.count, outputs[i], begin);
      }
    }
  });
}

}  // namespace trireme::cpu
