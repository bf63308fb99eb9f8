// What the files of records share: the functions that add them to the table, and small helpers.
#pragma once

#include <string>

#include "trireme/ir/builder.h"
#include "trireme/ir/op_record.h"

namespace trireme {

void add_attention(OpTable& table);
void add_batch_norm(OpTable& table);
void add_binary(OpTable& table);
void add_bits(OpTable& table);
void add_collective(OpTable& table);
void add_collective_start(OpTable& table);
void add_conv2d(OpTable& table);
void add_cross_entropy(OpTable& table);
void add_ctc_loss(OpTable& table);
void add_dispatch(OpTable& table);
void add_dropout(OpTable& table);
void add_embedding(OpTable& table);
void add_map(OpTable& table);
void add_matmul(OpTable& table);
void add_matmul_slots(OpTable& table);
void add_norm(OpTable& table);
void add_optimizer(OpTable& table);
void add_orthogonalise(OpTable& table);
void add_pool2d(OpTable& table);
void add_quantise(OpTable& table);
void add_reduce(OpTable& table);
void add_residual(OpTable& table);
void add_rice(OpTable& table);
void add_rope(OpTable& table);
void add_route(OpTable& table);
void add_shape(OpTable& table);
void add_softmax(OpTable& table);
void add_sparse(OpTable& table);
void add_svd_sample(OpTable& table);
void add_unary(OpTable& table);

inline constexpr NotDifferentiable kBackwardOp{"a backward op; second derivatives are not offered"};
inline constexpr NotDifferentiable kUpdateOp{"an optimizer update; nothing is trained through it"};
inline constexpr NotDifferentiable kExchangeOp{
    "of the exchange between replicas; nothing is trained through it"};
inline constexpr NotDifferentiable kFusedOp{"made by the fuse pass, which runs after autodiff"};
inline constexpr NotDifferentiable kDeviceOp{"put in for a device, in passes that run after autodiff"};
inline constexpr NotDifferentiable kExpandedOp{"made by the expand pass, which runs after autodiff"};
inline constexpr NotDifferentiable kRingOp{"made by the ring pass, which runs after autodiff"};
inline constexpr NotDifferentiable kGeneratingOp{
    "for generating token by token; nothing is trained through it"};

inline bool always_linear(const OpInstance&) {
  return true;
}

// OpRecord::index of an op whose rule is the same for all instances. `kWhole` names the indices that may not
// be split.
template <RuleText kRule, RuleText kWhole = "">
IndexRule written(const OpInstance& op) {
  IndexRule result = rule(op, operator""_rule<kRule>());
  if constexpr (sizeof(kWhole.text) > 1) result.whole(kWhole.text);
  return result;
}

// OpRecord::flops of ops that do so many for each element of an input.
template <int kFlops, int kInput = 0>
double flops_per_element(const OpInstance& op, const IndexRule&) {
  return kFlops * static_cast<double>(op.shape(kInput).elements());
}

inline double no_flops(const OpInstance&, const IndexRule&) {
  return 0;
}

// Adds an op of the exchange between replicas, which has no gradient. Other fields as in OpRecord.
void add_exchange_op(OpTable& table, std::string_view name, IndexRule (*index)(const OpInstance&),
                     std::vector<DTypeRule> inputs, std::vector<DTypeRule> outputs,
                     std::vector<std::string_view> numbers = {}, std::vector<InPlace> in_place = {});

// A shape from an attribute, refused with an Error where a Shape could not hold it.
Shape checked_shape(const OpInstance& op, const std::vector<int64_t>& dims);

// "i0 i1 i2": names for `rank` separate indices.
std::string index_names(int rank, std::string_view stem = "i");

// Sums a gradient over its leading dims until it has the shape of `like`, a suffix of its own.
ValueId sum_to_suffix(GradBuilder& g, ValueId gradient, ValueId like);

// The attributes of a node with some more.
Attrs with(Attrs attrs, std::initializer_list<std::pair<std::string, AttrValue>> more);

}  // namespace trireme
