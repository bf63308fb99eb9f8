// A matrix as some of its singular parts, drawn so that their sum is right in the mean. The number that is
// drawn is that of rng.h, keyed as in quantise.cc.
#include <algorithm>

#include "trireme/ops/records.h"

namespace trireme {

void add_svd_sample(OpTable& table) {
  table.add({.name = "svd_sample",
             .index =
                 [](const OpInstance& op) {
                   const int64_t count = op.attrs.integer("count");
                   IndexRule result =
                       rule(op, "x[a b] step[] -> left[k a] right[k b]"_rule).whole("a b k").size("k", count);
                   if (count < 1 || count > std::min(op.shape(0)[0], op.shape(0)[1]))
                     throw_error("[{}] count is {}, expected 1 to the least extent of {}", op.op, count,
                                 to_string(op.shape(0)));
                   return result;
                 },
             .inputs = {DTypeRule::kF32, DTypeRule::kF32},
             .outputs = {DTypeRule::kF32, DTypeRule::kF32},
             .gradient = kExchangeOp,
             .flops =
                 [](const OpInstance& op, const IndexRule&) {
                   // Products of all pairs of the shorter side, and that matrix made tridiagonal.
                   const double a = static_cast<double>(op.shape(0)[0]),
                                b = static_cast<double>(op.shape(0)[1]);
                   const double least = std::min(a, b);
                   return (std::max(a, b) + 4.0 / 3.0 * least) * least * least;
                 }});
}

}  // namespace trireme
