// Runs the CPU kernel of a case on given inputs, and makes such inputs.
#pragma once

#include "trireme/bench/cases/op_case.h"
#include "trireme/kernels/kernel.h"

namespace trireme::testing {

using namespace bench;  // the cases

// Inputs of the case, drawn from a seeded stream and rounded to each input's dtype. Floating-point
// f32 inputs become `format` (f32, f16 or bf16).
RefTensors random_inputs(const OpCase& one, DType format, uint64_t seed);

std::vector<TensorType> types_of(const RefTensors& tensors);

// Element i of memory in that format, as a double and back.
double load(DType dtype, const std::byte* data, int64_t i);
void store(DType dtype, std::byte* data, int64_t i, double value);
// By which the kernel is chosen; see KernelTable.
DType format_of(const RefTensors& inputs, const std::vector<TensorType>& outputs);

// Runs the kernel bound to `op` on tensors of the given values; `outputs` says the types that are
// expected. Memory around each output is checked for overruns; outputs start as garbage, but those in
// `in_place` lie over an input of the same type.
struct InPlace {
  int output = 0;
  int input = 0;
};
RefTensors run_kernel(const std::string& op, const Attrs& attrs, const RefTensors& inputs,
                      const std::vector<TensorType>& outputs, int threads,
                      const std::vector<InPlace>& in_place = {});

// The largest |a − b| over the largest |b| (or over 1 when b is all smaller than 1e-30). A NaN on one
// side only counts as infinite.
double relative_difference(const RefTensor& a, const RefTensor& b);

}  // namespace trireme::testing
