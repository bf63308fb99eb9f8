// The largest elements of a vector, and vectors that are given by some of their elements. Rows of several
// ranks are added up in the order of the ranks.
#include "trireme/ops/records.h"

namespace trireme {
namespace {

using enum DTypeRule;

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
  add_exchange_op(table, "top_k", top_k_rule, {kF32}, {kF32, kI32, kF32}, {}, {{2, 0}});
  add_exchange_op(table, "scatter_add", scatter_add_rule, {kF32, kI32}, {kF32});
  add_exchange_op(table, "clear_at", written<"x[n] indices[k] -> y[n]", "n k">, {kF32, kI32}, {kF32}, {},
                  {{0, 0}});
}

}  // namespace trireme
