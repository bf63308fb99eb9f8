// The largest elements of a vector, and vectors that are given by some of their elements. Rows of several
// ranks are added up in the order of the ranks.
#include "trireme/ops/records.h"

namespace trireme {
namespace {

IndexRule top_k_rule(const OpInstance& op) {
  const int64_t k = op.attrs.integer("k");
  IndexRule result = rule(op, "x[n] -> values[k] indices[k] rest[n]"_rule).whole("n k").size("k", k);
  if (k < 0 || k > op.shape(0)[0])
    throw_error("[{}] k is {}, expected 0 to {}, the elements of {}", op.op, k, op.shape(0)[0],
                to_string(op.shape(0)));
  if (const double sampled = op.attrs.real("sampled", 0); !(sampled >= 0 && sampled <= 1))
    throw_error("[{}] sampled is {}, expected a share from 0 (all are looked at) to 1", op.op, sampled);
  return result;
}

IndexRule scatter_add_rule(const OpInstance& op) {
  const int64_t size = checked_shape(op, {op.attrs.integer("size")})[0];
  return rule(op, "values[p k] indices[p k] -> y[n]"_rule).whole("p k n").size("n", size);
}

}  // namespace

void add_sparse(OpTable& table) {
  table.add({.name = "top_k",
             .index = top_k_rule,
             .inputs = {DTypeRule::kF32},
             .outputs = {DTypeRule::kF32, DTypeRule::kI32, DTypeRule::kF32},
             .gradient = kExchangeOp,
             .in_place = {{2, 0}}});
  table.add({.name = "scatter_add",
             .index = scatter_add_rule,
             .inputs = {DTypeRule::kF32, DTypeRule::kI32},
             .outputs = {DTypeRule::kF32},
             .gradient = kExchangeOp});
  table.add(
      {.name = "clear_at",
       .index = [](const OpInstance& op) { return rule(op, "x[n] indices[k] -> y[n]"_rule).whole("n k"); },
       .inputs = {DTypeRule::kF32, DTypeRule::kI32},
       .outputs = {DTypeRule::kF32},
       .gradient = kExchangeOp,
       .in_place = {{0, 0}}});
}

}  // namespace trireme
