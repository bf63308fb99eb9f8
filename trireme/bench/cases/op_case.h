// One case object per instance of an op. The same object is run in several ways: the kernel against a naive
// double-precision reference, in every number format; the gradient against finite differences; split along
// each index and put together again (tests/ops); and timed, at the sizes of models (kernel_case.h).
#pragma once

#include <string>
#include <vector>

#include "trireme/base/shape.h"
#include "trireme/ir/attrs.h"
#include "trireme/ir/type.h"

namespace trireme::bench {

// A tensor of the reference: double precision, whatever its dtype is in the op.
struct RefTensor {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<double> values;

  // An f32 (or other) tensor of zeros, for results.
  static RefTensor zeros(Shape shape, DType dtype = DType::f32);
  double& at(std::initializer_list<int64_t> index);
  double at(std::initializer_list<int64_t> index) const;
};
using RefTensors = std::vector<RefTensor>;

// How to fill an input: uniform in [low, high); whole numbers for integer dtypes.
struct CaseInput {
  Shape shape;
  DType dtype = DType::f32;
  double low = -1;
  double high = 1;
  // Whether an f32 input takes the format in which the case is run. kKept: stats, optimizer states.
  enum class Format { kFollows, kKept } format = Format::kFollows;
};

enum class Differentiable { kYes, kNo };

struct OpCase {
  std::string op;
  std::string label;  // tells cases of one op apart, letters, digits and _ only
  std::vector<CaseInput> inputs;
  Attrs attrs;
  // The op written out naively, as a function of its inputs alone. Says the types of the outputs too.
  // Inputs that are meant to come from another op (a saved mean, say) are random here all the same.
  RefTensors (*reference)(const RefTensors& inputs, const Attrs& attrs);
  double tolerance = 1e-5;  // of f32, relative to the largest magnitude in each output
  // kNo for inputs at which finite differences make no sense (ties of max, comparisons).
  Differentiable finite_differences = Differentiable::kYes;
};

// One function per group of ops, in the file <group>_cases.cc of this folder.
std::vector<OpCase> matmul_cases();
std::vector<OpCase> attention_cases();
std::vector<OpCase> conv_cases();
std::vector<OpCase> pool_cases();
std::vector<OpCase> batch_norm_cases();
std::vector<OpCase> elementwise_cases();
std::vector<OpCase> reduce_cases();
std::vector<OpCase> shape_cases();
std::vector<OpCase> norm_cases();
std::vector<OpCase> language_cases();  // embedding, rope, cross_entropy, dropout
std::vector<OpCase> ctc_cases();
std::vector<OpCase> expert_cases();    // route, slots, balance, dispatch, combine, matmul_slots
std::vector<OpCase> optimizer_cases();
std::vector<OpCase> exchange_cases();  // what replicas send one another, and what they keep

std::vector<OpCase> all_cases();

std::string case_name(const OpCase& one);  // names the test of a case

}  // namespace trireme::bench
