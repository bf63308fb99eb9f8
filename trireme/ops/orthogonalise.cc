// Columns made orthonormal, from the first to the last.
#include "trireme/ops/records.h"

namespace trireme {

void add_orthogonalise(OpTable& table) {
  table.add({.name = "orthogonalise",
             .index =
                 [](const OpInstance& op) {
                   IndexRule result = rule(op, "x[a r] -> y[a r]"_rule).whole("a r");
                   if (op.shape(0)[1] > op.shape(0)[0])
                     throw_error("[{}] {} has more columns than rows; they can not be orthogonal", op.op,
                                 to_string(op.shape(0)));
                   return result;
                 },
             .inputs = {DTypeRule::kF32},
             .outputs = {DTypeRule::kF32},
             .gradient = kExchangeOp,
             .flops =
                 [](const OpInstance& op, const IndexRule&) {
                   const double a = static_cast<double>(op.shape(0)[0]),
                                r = static_cast<double>(op.shape(0)[1]);
                   return 2 * a * r * (r + 1);
                 },
             .in_place = {{0, 0}}});
}

}  // namespace trireme
