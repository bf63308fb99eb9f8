// Who of several is drawn, in each round anew.
#include "trireme/ops/records.h"

namespace trireme {

void add_drawn(OpTable& table) {
  table.add({.name = "drawn",
             .index =
                 [](const OpInstance& op) {
                   const int64_t count = op.attrs.integer("count"), of = op.attrs.integer("of"),
                                 which = op.attrs.integer("which");
                   if (of < 1 || count < 0 || count > of || which < 0 || which >= of)
                     throw_error("[{}] number {} of {}, of which {} are drawn, can not be", op.op, which, of,
                                 count);
                   return rule(op, "round[] -> y[]"_rule);
                 },
             .inputs = {DTypeRule::kF32},
             .outputs = {DTypeRule::kF32},
             .gradient = kExchangeOp});
}

}  // namespace trireme
