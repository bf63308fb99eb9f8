// Normalisation over the last dim, alone or after a residual sum.
//   layer_norm   y = (x − mean) / sqrt(var + eps) · gain + bias
//   rms_norm     y = x / sqrt(mean(x²) + eps) · gain
#include "trireme/ops/records.h"

namespace trireme {
namespace {

using enum DTypeRule;

void add_layer_norm(OpTable& table) {
  table.add({.name = "layer_norm",
             .index = written<"x[b… h] gain[h] bias[h] -> y[b… h] mean[b…] rstd[b…]", "h">,
             .outputs = {kFormat, kF32, kF32},
             .numbers = {"eps"},
             .gradient =
                 [](GradBuilder& g) {
                   return g.node("layer_norm_grad", {g.dy(), g.in(0), g.in(1), g.out(1), g.out(2)});
                 },
             .flops = flops_per_element<8>});
  table.add(
      {.name = "layer_norm_grad",
       .index = written<"dy[b… h] x[b… h] gain[h] mean[b…] rstd[b…] -> dx[b… h] dgain[h] dbias[h]", "h">,
       .inputs = {kFormat, kFormat, kFormat, kF32, kF32},
       .gradient = kBackwardOp,
       .flops = flops_per_element<8>});
  table.add({.name = "layer_norm_grad_add",
             .index = written<"dy[b… h] x[b… h] gain[h] mean[b…] rstd[b…] more[b… h] -> dx[b… h] dgain[h] "
                              "dbias[h] total[h]",
                              "h">,
             .inputs = {kFormat, kFormat, kFormat, kF32, kF32},
             .gradient = kFusedOp,
             .flops = flops_per_element<8>,
             .in_place = {{0, 0}, {0, 5}}});
  table.add({.name = "add_layer_norm",
             .index = written<"x[b… h] r[b… h] gain[h] bias[h] -> s[b… h] y[b… h] mean[b…] rstd[b…]", "h">,
             .outputs = {kFormat, kFormat, kF32, kF32},
             .numbers = {"eps"},
             .gradient = kFusedOp,
             .flops = flops_per_element<8>,
             .in_place = {{0, 0}, {0, 1}}});
}

void add_rms_norm(OpTable& table) {
  table.add({.name = "rms_norm",
             .index = written<"x[b… h] gain[h] -> y[b… h] rstd[b…]", "h">,
             .outputs = {kFormat, kF32},
             .numbers = {"eps"},
             .gradient =
                 [](GradBuilder& g) {
                   return g.node("rms_norm_grad", {g.dy(), g.in(0), g.in(1), g.out(1)});
                 },
             .flops = flops_per_element<5>});
  table.add({.name = "rms_norm_grad",
             .index = written<"dy[b… h] x[b… h] gain[h] rstd[b…] -> dx[b… h] dgain[h]", "h">,
             .inputs = {kFormat, kFormat, kFormat, kF32},
             .gradient = kBackwardOp,
             .flops = flops_per_element<5>});
  table.add({.name = "rms_norm_grad_add",
             .index = written<"dy[b… h] x[b… h] gain[h] rstd[b…] more[b… h] -> dx[b… h] dgain[h]", "h">,
             .inputs = {kFormat, kFormat, kFormat, kF32},
             .gradient = kFusedOp,
             .flops = flops_per_element<5>,
             .in_place = {{0, 0}, {0, 4}}});
  table.add({.name = "add_rms_norm",
             .index = written<"x[b… h] r[b… h] gain[h] -> s[b… h] y[b… h] rstd[b…]", "h">,
             .outputs = {kFormat, kFormat, kF32},
             .numbers = {"eps"},
             .gradient = kFusedOp,
             .flops = flops_per_element<5>,
             .in_place = {{0, 0}, {0, 1}}});
}

}  // namespace

void add_norm(OpTable& table) {
  add_layer_norm(table);
  add_rms_norm(table);
}

}  // namespace trireme
