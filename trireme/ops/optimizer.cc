// Optimizer updates, as ops like the others. Norms of whole tensors come in as inputs, made by sum_squares,
// so that they are right under any split.
#include "trireme/ops/records.h"

namespace trireme {

void add_optimizer(OpTable& table) {
  const auto flops = [](const OpInstance& op, const IndexRule&) {
    return 12.0 * static_cast<double>(op.shape(0).elements());
  };
  const auto add = [&](std::string_view name, IndexRule (*index)(const OpInstance&),
                       std::vector<InPlace> in_place, std::vector<std::string_view> numbers) {
    OpRecord record{.name = name,
                    .index = index,
                    .numbers = std::move(numbers),
                    .gradient = kUpdateOp,
                    .flops = flops,
                    .in_place = std::move(in_place)};
    record.inputs.assign(8, DTypeRule::kF32);
    record.outputs.assign(3, DTypeRule::kF32);
    table.add(std::move(record));
  };
  add("sgd", [](const OpInstance& op) { return rule(op, "w[i…] g[i…] lr[] scale[] -> w'[i…]"_rule); },
      {{0, 0}}, {});
  add("momentum",
      [](const OpInstance& op) { return rule(op, "w[i…] g[i…] u[i…] lr[] scale[] -> w'[i…] u'[i…]"_rule); },
      {{0, 0}, {1, 2}}, {"momentum"});
  add("adam",
      [](const OpInstance& op) {
        return rule(op, "w[i…] g[i…] m[i…] v[i…] lr[] scale[] step[] -> w'[i…] m'[i…] v'[i…]"_rule);
      },
      {{0, 0}, {1, 2}, {2, 3}}, {"beta1", "beta2", "eps", "weight_decay"});
  add("lars",
      [](const OpInstance& op) {
        return rule(op, "w[i…] g[i…] u[i…] w_sq[] g_sq[] lr[] scale[] -> w'[i…] u'[i…]"_rule);
      },
      {{0, 0}, {1, 2}}, {"momentum", "weight_decay", "trust"});
  add("lamb_direction",
      [](const OpInstance& op) {
        return rule(op, "w[i…] g[i…] m[i…] v[i…] scale[] step[] -> r[i…] m'[i…] v'[i…]"_rule);
      },
      {{1, 2}, {2, 3}}, {"beta1", "beta2", "eps", "weight_decay"});
  add("lamb_apply",
      [](const OpInstance& op) { return rule(op, "w[i…] r[i…] w_sq[] r_sq[] lr[] scale[] -> w'[i…]"_rule); },
      {{0, 0}}, {});
  add("gradient_scale",
      [](const OpInstance& op) { return rule(op, "g_sq[] count[] loss_scale[] -> scale[] norm[]"_rule); }, {},
      {});
}

}  // namespace trireme
