// What methods of exchange keep from step to step: added to a gradient, taken off it, and left as it was
// where a step is skipped. Element by element, in f32.
#include "trireme/ops/records.h"

namespace trireme {

void add_residual(OpTable& table) {
  const auto add = [&](std::string_view name, IndexRule (*index)(const OpInstance&)) {
    OpRecord record{.name = name, .index = index, .gradient = kExchangeOp, .in_place = {{0, 0}, {0, 1}}};
    record.inputs.assign(3, DTypeRule::kF32);
    record.outputs.assign(1, DTypeRule::kF32);
    table.add(std::move(record));
  };
  add("add_scaled", [](const OpInstance& op) { return rule(op, "x[i…] y[i…] s[] -> z[i…]"_rule); });
  add("residual", [](const OpInstance& op) { return rule(op, "x[i…] sent[i…] s[] -> rest[i…]"_rule); });
  add("renew", [](const OpInstance& op) { return rule(op, "old[i…] new[i…] scale[] -> y[i…]"_rule); });
}

}  // namespace trireme
