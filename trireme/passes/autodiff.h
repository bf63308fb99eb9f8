// Reverse-mode differentiation: adds to a graph the nodes that compute gradients. Backward ops are ops like
// the others; what each op contributes stands in its record. Their results are named in the scope of the
// forward node, with /grad behind it.
#pragma once

#include <vector>

#include "trireme/ir/builder.h"

namespace trireme {

struct Backward {
  std::vector<ValueId> gradients;  // one for each of `wanted`
  // And what each is the sum of: one addend for each place where it is used.
  std::vector<std::vector<ValueId>> addends;
};

// The gradients of the scalar `loss`, times the scalar `seed`, with respect to each of `wanted`. A value
// that the loss does not depend on gets kNoValue. Throws an Error when the way there leads through an op
// that is not differentiable, with the reason that its record gives.
Backward differentiate(Builder& builder, ValueId loss, ValueId seed, const std::vector<ValueId>& wanted);
// Of the sum of several scalars, which is not made itself.
Backward differentiate(Builder& builder, const std::vector<ValueId>& losses, ValueId seed,
                       const std::vector<ValueId>& wanted);

}  // namespace trireme
