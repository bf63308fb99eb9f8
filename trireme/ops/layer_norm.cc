// y = (x − mean) / sqrt(var + eps) · gain + bias over the last dim; alone, or after a residual sum.
#include "trireme/ops/records.h"

namespace trireme {
namespace {

using enum DTypeRule;

double layer_norm_flops(const OpInstance& op, const IndexRule&) {
  return 8.0 * static_cast<double>(op.shape(0).elements());
}

}  // namespace

void add_layer_norm(OpTable& table) {
  table.add({.name = "layer_norm",
             .index =
                 [](const OpInstance& op) {
                   return rule(op, "x[b… h] gain[h] bias[h] -> y[b… h] mean[b…] rstd[b…]"_rule).whole("h");
                 },
             .outputs = {kFormat, kF32, kF32},
             .numbers = {"eps"},
             .gradient =
                 [](GradBuilder& g) {
                   return g.node("layer_norm_grad", {g.dy(), g.in(0), g.in(1), g.out(1), g.out(2)});
                 },
             .flops = layer_norm_flops});
  table.add(
      {.name = "layer_norm_grad",
       .index =
           [](const OpInstance& op) {
             return rule(op, "dy[b… h] x[b… h] gain[h] mean[b…] rstd[b…] -> dx[b… h] dgain[h] dbias[h]"_rule)
                 .whole("h");
           },
       .inputs = {kFormat, kFormat, kFormat, kF32, kF32},
       .gradient = kBackwardOp,
       .flops = layer_norm_flops});
  table.add({.name = "layer_norm_grad_add",
             .index =
                 [](const OpInstance& op) {
                   return rule(op,
                               "dy[b… h] x[b… h] gain[h] mean[b…] rstd[b…] more[b… h] -> dx[b… h] dgain[h] "
                               "dbias[h] total[h]"_rule)
                       .whole("h");
                 },
             .inputs = {kFormat, kFormat, kFormat, kF32, kF32},
             .gradient = kFusedOp,
             .flops = layer_norm_flops,
             .in_place = {{0, 0}, {0, 5}}});
  table.add({.name = "add_layer_norm",
             .index =
                 [](const OpInstance& op) {
                   return rule(op,
                               "x[b… h] r[b… h] gain[h] bias[h] -> s[b… h] y[b… h] mean[b…] rstd[b…]"_rule)
                       .whole("h");
                 },
             .outputs = {kFormat, kFormat, kF32, kF32},
             .numbers = {"eps"},
             .gradient = kFusedOp,
             .flops = layer_norm_flops,
             .in_place = {{0, 0}, {0, 1}}});
}

}  // namespace trireme
