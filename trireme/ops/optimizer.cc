// Optimizer updates, as ops like the others: all in f32, but for gradients, which may be in 16 bits. Norms of
// whole tensors come in as inputs, made by sum_squares, so that they are right under any split.
#include "trireme/ops/records.h"

namespace trireme {

void add_optimizer(OpTable& table) {
  constexpr size_t kGradient = 1;  // the second input of those that take one
  const auto add = [&](std::string_view name, IndexRule (*index)(const OpInstance&),
                       std::vector<InPlace> in_place, std::vector<std::string_view> numbers,
                       DTypeRule gradient = DTypeRule::kF32) {
    OpRecord record{.name = name,
                    .index = index,
                    .numbers = std::move(numbers),
                    .gradient = kUpdateOp,
                    .flops = flops_per_element<12>,
                    .in_place = std::move(in_place)};
    record.inputs.assign(8, DTypeRule::kF32);
    record.inputs[kGradient] = gradient;
    record.outputs.assign(3, DTypeRule::kF32);
    table.add(std::move(record));
  };
  add("sgd", written<"w[i…] g[i…] lr[] scale[] -> w'[i…]">, {{0, 0}}, {}, DTypeRule::kFormat);
  add("momentum", written<"w[i…] g[i…] u[i…] lr[] scale[] -> w'[i…] u'[i…]">, {{0, 0}, {1, 2}}, {"momentum"},
      DTypeRule::kFormat);
  add("adam", written<"w[i…] g[i…] m[i…] v[i…] lr[] scale[] step[] -> w'[i…] m'[i…] v'[i…]">,
      {{0, 0}, {1, 2}, {2, 3}}, {"beta1", "beta2", "eps", "weight_decay"}, DTypeRule::kFormat);
  // And the new weight in the gradient's format, for training that keeps weights and gradients in 16 bits.
  {
    OpRecord rounded = table.at("adam");
    rounded.name = "adam_rounded";
    rounded.index = written<"w[i…] g[i…] m[i…] v[i…] lr[] scale[] step[] -> w'[i…] m'[i…] v'[i…] h[i…]">;
    rounded.outputs.push_back(DTypeRule::kFormat);
    table.add(std::move(rounded));
  }
  add("lars", written<"w[i…] g[i…] u[i…] w_sq[] g_sq[] lr[] scale[] -> w'[i…] u'[i…]">, {{0, 0}, {1, 2}},
      {"momentum", "weight_decay", "trust"}, DTypeRule::kFormat);
  add("lamb_direction", written<"w[i…] g[i…] m[i…] v[i…] scale[] step[] -> r[i…] m'[i…] v'[i…]">,
      {{1, 2}, {2, 3}}, {"beta1", "beta2", "eps", "weight_decay"}, DTypeRule::kFormat);
  add("lamb_apply", written<"w[i…] r[i…] w_sq[] r_sq[] lr[] scale[] -> w'[i…]">, {{0, 0}}, {});
  add("gradient_scale", written<"g_sq[] count[] loss_scale[] -> scale[] norm[]">, {}, {});
}

}  // namespace trireme
