// What methods of exchange keep from step to step: added to a gradient, taken off it, and left as it was
// where a step is skipped. Element by element, in f32.
#include "trireme/ops/records.h"

namespace trireme {

void add_residual(OpTable& table) {
  const auto add = [&](std::string_view name, IndexRule (*index)(const OpInstance&)) {
    add_exchange_op(table, name, index, std::vector(3, DTypeRule::kF32), {DTypeRule::kF32}, {},
                    {{0, 0}, {0, 1}});
  };
  add("add_scaled", written<"x[i…] y[i…] s[] -> z[i…]">);
  add("residual", written<"x[i…] sent[i…] s[] -> rest[i…]">);
  add("renew", written<"old[i…] new[i…] scale[] -> y[i…]">);
}

}  // namespace trireme
