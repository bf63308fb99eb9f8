// Normalisation over the batch and the image, per channel, with running statistics for inference.
#include "trireme/ops/records.h"

namespace trireme {
namespace {

constexpr DTypeRule kF = DTypeRule::kFormat, kStat = DTypeRule::kF32;

double flops(const OpInstance& op, const IndexRule&) {
  return 8.0 * static_cast<double>(op.shape(0).elements());
}

}  // namespace

void add_batch_norm(OpTable& table) {
  table.add({.name = "batch_norm",
             .index =
                 [](const OpInstance& op) {
                   return rule(op,
                               "x[n c s…] gain[c] bias[c] running_mean[c] running_var[c] -> y[n c s…] "
                               "mean[c] rstd[c] new_mean[c] new_var[c]")
                       .whole("n s…");
                 },
             .inputs = {kF, kF, kF, kStat, kStat},
             .outputs = {kF, kStat, kStat, kStat, kStat},
             .numbers = {"eps"},
             .gradient =
                 [](GradBuilder& g) {
                   std::vector<ValueId> gradients =
                       g.node("batch_norm_grad", {g.dy(), g.in(0), g.in(1), g.out(1), g.out(2)});
                   gradients.resize(5, kNoValue);
                   return gradients;
                 },
             .flops = flops});
  table.add({.name = "batch_norm_grad",
             .index =
                 [](const OpInstance& op) {
                   return rule(op,
                               "dy[n c s…] x[n c s…] gain[c] mean[c] rstd[c] -> dx[n c s…] dgain[c] dbias[c]")
                       .whole("n s…");
                 },
             .inputs = {kF, kF, kF, kStat, kStat},
             .gradient = kBackwardOp,
             .flops = flops});
  table.add({.name = "batch_norm_inference",
             .index =
                 [](const OpInstance& op) {
                   return rule(op, "x[n c s…] gain[c] bias[c] mean[c] var[c] -> y[n c s…]");
                 },
             .inputs = {kF, kF, kF, kStat, kStat},
             .numbers = {"eps"},
             .gradient = NotDifferentiable{"used in evaluation only"},
             .flops = flops});
}

}  // namespace trireme
