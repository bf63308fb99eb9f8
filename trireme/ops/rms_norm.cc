// y = x / sqrt(mean(x²) + eps) · gain over the last dim; alone, or after a residual sum.
#include "trireme/ops/records.h"

namespace trireme {
namespace {

using enum DTypeRule;

double rms_norm_flops(const OpInstance& op, const IndexRule&) {
  return 5.0 * static_cast<double>(op.shape(0).elements());
}

}  // namespace

void add_rms_norm(OpTable& table) {
  table.add({.name = "rms_norm",
             .index =
                 [](const OpInstance& op) {
                   return rule(op, "x[b… h] gain[h] -> y[b… h] rstd[b…]"_rule).whole("h");
                 },
             .outputs = {kFormat, kF32},
             .numbers = {"eps"},
             .gradient =
                 [](GradBuilder& g) {
                   return g.node("rms_norm_grad", {g.dy(), g.in(0), g.in(1), g.out(1)});
                 },
             .flops = rms_norm_flops});
  table.add({.name = "rms_norm_grad",
             .index =
                 [](const OpInstance& op) {
                   return rule(op, "dy[b… h] x[b… h] gain[h] rstd[b…] -> dx[b… h] dgain[h]"_rule).whole("h");
                 },
             .inputs = {kFormat, kFormat, kFormat, kF32},
             .gradient = kBackwardOp,
             .flops = rms_norm_flops});
  table.add({.name = "rms_norm_grad_add",
             .index =
                 [](const OpInstance& op) {
                   return rule(op, "dy[b… h] x[b… h] gain[h] rstd[b…] more[b… h] -> dx[b… h] dgain[h]"_rule)
                       .whole("h");
                 },
             .inputs = {kFormat, kFormat, kFormat, kF32},
             .gradient = kFusedOp,
             .flops = rms_norm_flops,
             .in_place = {{0, 0}, {0, 4}}});
  table.add({.name = "add_rms_norm",
             .index =
                 [](const OpInstance& op) {
                   return rule(op, "x[b… h] r[b… h] gain[h] -> s[b… h] y[b… h] rstd[b…]"_rule).whole("h");
                 },
             .outputs = {kFormat, kFormat, kF32},
             .numbers = {"eps"},
             .gradient = kFusedOp,
             .flops = rms_norm_flops,
             .in_place = {{0, 0}, {0, 1}}});
}

}  // namespace trireme
