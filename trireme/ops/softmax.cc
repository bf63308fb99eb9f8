// Softmax over the last dim.
#include "trireme/ops/records.h"

namespace trireme {

void add_softmax(OpTable& table) {
  const auto flops = [](const OpInstance& op, const IndexRule&) {
    return 5.0 * static_cast<double>(op.shape(0).elements());
  };
  table.add({.name = "softmax",
             .index = [](const OpInstance& op) { return rule(op, "x[b… h] -> y[b… h]"_rule).whole("h"); },
             .gradient =
                 [](GradBuilder& g) {
                   return std::vector{g.op("softmax_grad", {g.dy(), g.out(0)})};
                 },
             .flops = flops,
             .in_place = {{0, 0}}});
  table.add(
      {.name = "softmax_grad",
       .index = [](const OpInstance& op) { return rule(op, "dy[b… h] y[b… h] -> dx[b… h]"_rule).whole("h"); },
       .gradient = kBackwardOp,
       .flops = flops,
       .in_place = {{0, 0}, {0, 1}}});
}

}  // namespace trireme
