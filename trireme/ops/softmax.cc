// Softmax over the last dim.
#include "trireme/ops/records.h"

namespace trireme {

void add_softmax(OpTable& table) {
  table.add({.name = "softmax",
             .index = written<"x[b… h] -> y[b… h]", "h">,
             .gradient =
                 [](GradBuilder& g) {
                   return std::vector{g.op("softmax_grad", {g.dy(), g.out(0)})};
                 },
             .flops = flops_per_element<5>,
             .in_place = {{0, 0}}});
  table.add({.name = "softmax_grad",
             .index = written<"dy[b… h] y[b… h] -> dx[b… h]", "h">,
             .gradient = kBackwardOp,
             .flops = flops_per_element<5>,
             .in_place = {{0, 0}, {0, 1}}});
}

}  // namespace trireme
